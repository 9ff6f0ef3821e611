"""Served runs with real processes on loopback: a server and a device per client, against simulate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli import local_processes as demo
from edgefl.cli.cli import main
from edgefl.experiment.assembly import assemble
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

SMALL = replace(
    demo.EXPERIMENT, data="digits", clients=3, per_round=2, rounds=4, eval_every=2, partition="iid", epochs=1
)


def assert_same_arrays(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("method", ["fedspu:keep=1:lr=0.1", "fedper", "fedavg-ft", "ditto", "random-dropout", "fjord"])
def test_served_run_is_bit_identical_to_simulation(tmp_path: Path, method: str) -> None:
    experiment = replace(SMALL, methods=(method,))
    demo.write_partitions(tmp_path / "shares", experiment)
    log_records = []
    served = demo.serve(tmp_path / "served", experiment, tmp_path / "shares", log_records.append)
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()[method], assemble(experiment), experiment.settings(1), journal)

    found = run_history.final_state(tmp_path / "served")
    assert found.values == state.values
    for group in state.arrays:
        assert_same_arrays(found.arrays[group], state.arrays[group])
    assert [without_times(log_record) for log_record in served.log_records] == [
        without_times(log_record) for log_record in journal.metrics()
    ]
    assert [log_record["round"] for log_record in log_records] == [1, 2, 3, 4]
    assert main(["simulate", "--replay", str(tmp_path / "served"), "--workers", "1"]) == 0


def test_other_losses_and_optimizers_are_served_as_simulated(tmp_path: Path) -> None:
    """FedSPU with Adam on a cosine, of three decisions an example whose targets are in the devices' files."""
    draw = np.random.default_rng(5)
    x = draw.standard_normal((48, 1, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "made.npz", x=x, y=x[:, 0, 0, :3] > 0.2)
    options = (("betas", (0.8, 0.9)), ("optimizer", "adam"), ("schedule", "cosine"), ("warmup", 1))
    chosen = {"data": str(tmp_path / "made.npz"), "model": "pflego_mlp", "loss": "bce:pos_weight=1.0,2.0,0.5"}
    experiment = replace(SMALL, methods=("fedspu-es",), validation_share=0.2, options=options, **chosen)
    demo.write_partitions(tmp_path / "shares", experiment)
    served = demo.serve(tmp_path / "served", experiment, tmp_path / "shares", lambda log_record: None)
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["fedspu-es"], assemble(experiment), experiment.settings(1), journal)
    assert_same_arrays(run_history.final_state(tmp_path / "served").arrays["model"], state.arrays["model"])
    assert [without_times(log_record) for log_record in served.log_records] == [
        without_times(log_record) for log_record in journal.metrics()
    ]
    assert served.log_records[-1]["evaluation"]["personal"]["decisions"] == 3
    assert main(["simulate", "--replay", str(tmp_path / "served"), "--workers", "1"]) == 0


def without_times(value):
    """Return metrics without measured times."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value
