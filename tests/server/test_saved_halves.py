"""A run whose steps keep values as float16, with real processes: its replay and its simulation are identical, and a
run that does not is another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.cluster import Cluster, write_partitions
from edgefl.cli import local_processes as demo
from edgefl.cli.cli import main
from edgefl.experiment.assembly import assemble
from edgefl.methods.task import MODEL
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.forked import ForkedProcess

EXPERIMENT = replace(
    demo.EXPERIMENT,
    data="digits", methods=("fedspu",), clients=2, per_round=2, rounds=2, eval_every=2, partition="iid", epochs=1,
    options=(("saved", "fp16"),),
)  # fmt: skip


def test_served_replayed_and_simulated_alike(tmp_path: Path, capsys) -> None:
    write_partitions(tmp_path / "shares", EXPERIMENT)
    with Cluster(tmp_path, EXPERIMENT, tmp_path / "shares", process=ForkedProcess) as cluster:
        cluster.start_server()
        for client in range(EXPERIMENT.clients):
            cluster.start_device(client)
        cluster.finish()
    assert main(["simulate", "--replay", str(cluster.run), "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("identical after round 2")
    found, apart = run_history.final_state(cluster.run).arrays[MODEL], 0.0
    for options in (EXPERIMENT.options, ()):
        experiment = replace(EXPERIMENT, options=options)
        journal = Journal(tmp_path / f"simulated{len(options)}")
        state = simulate(experiment.algorithms()["fedspu"], assemble(experiment), experiment.settings(1), journal)
        journal.close()
        apart = max(float(np.abs(state.arrays[MODEL][name] - value).max()) for name, value in found.items())
        assert (apart == 0) == bool(options), options
