"""Adapters on an int8 base in a run of real processes whose server is killed: it ends as its simulation and its replay,
and server and devices hold the codes.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.state_reader import folder_of
from edgefl.models import add_adapters, quantize_frozen
from edgefl.models.graph import INPUT, Graph, Model, Node, model_files
from edgefl.models.graph.operations import Flatten, Linear, ReLU
from edgefl.models.graph.quantized_array import QuantizedArray
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference, replay
from tests.server.processes import lines, start, until

CLIENTS, ROUNDS = 2, 4
EXPERIMENT = (
    f"--clients {CLIENTS} --per-round {CLIENTS} --rounds {ROUNDS} --eval-every 1 --partition iid --epochs 1 --batch 8 "
    "--lr .05 --method fedspu --keep .5,1"
).split()


def given(path: Path) -> list[str]:
    """Write a model with adapters on an int8 base, and data in four classes. Return the options that name both."""
    nodes = (
        Node("flat", Flatten(), (INPUT,)),
        Node("base", Linear(48, 40), ("flat",)),
        Node("relu", ReLU(), ("base",)),
        Node("out", Linear(40, 4), ("relu",)),
    )
    graph = Graph((3, 4, 4), nodes)
    adapted = add_adapters(Model(graph, graph.init(rng.stream(2, rng.INIT))), rank=4, targets="base", train="out.*")
    model_files.save(path / "model.safetensors", quantize_frozen(adapted, "int8"))
    draw, y = np.random.default_rng(7), np.arange(60) % 4
    x = draw.integers(0, 128, (60, 3, 4, 4)) + 30 * y[:, None, None, None]
    np.savez(path / "made.npz", x=x.astype(np.uint8), y=y)
    return [*EXPERIMENT, "--data", str(path / "made.npz"), "--model", str(path / "model.safetensors")]


def test_a_run_on_an_int8_base_survives_a_kill_and_is_its_simulation(tmp_path: Path) -> None:
    options, run = given(tmp_path), tmp_path / "run"
    assert main(["partition", *options, "--out", str(tmp_path / "shares")]) == 0
    with ExitStack() as stack:
        server = start(stack, "serve", *options, "--port", "0", "--run-dir", str(run))
        heard = lines(server)
        address = until(heard, "listening on").split()[-1]
        devices = [
            start(
                stack, "client", "--server", address, "--id", str(client), "--state", str(tmp_path / f"device{client}"),
                "--data", str(tmp_path / "shares" / f"device-{client:04d}.npz"),
            )
            for client in range(CLIENTS)
        ]  # fmt: skip
        until(heard, "round 2/")
        server.kill()
        server.wait()
        server = start(stack, "serve", "--resume", str(run), "--port", address.split(":")[1])
        assert [process.wait(60) for process in (server, *devices)] == [0] * (1 + CLIENTS)
    assert main(["simulate", *options, "--run-dir", str(tmp_path / "simulated")]) == 0
    journal = Journal(tmp_path / "simulated" / "fedspu")
    final = run_history.final_state(run)
    assert difference(final, journal.load_state()) is None
    journal.close()
    assert replay(run, tmp_path / "replay", None, 1) == (ROUNDS, None)
    codes = model_files.load(tmp_path / "model.safetensors").params["base.weight"]
    device = DeviceState(folder_of(tmp_path / "device0"))
    for held in (final.arrays["model"]["base.weight"], device.model().params["base.weight"]):
        assert isinstance(held, QuantizedArray) and isinstance(codes, QuantizedArray)
        np.testing.assert_array_equal(held.codes, codes.codes)
    device.close()
