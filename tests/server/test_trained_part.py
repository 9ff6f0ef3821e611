"""A trained part of a model in a run of real processes that are killed: it ends as simulate, a replay agrees, messages
have the bytes of the formula, and the frozen parameters are equal to the bit on the server and on every device.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import CLIENT_STATE, DeviceState
from edgefl.deployment.device.state_reader import folder_of
from edgefl.experiment.assembly import assemble
from edgefl.experiment.run_json import read_experiment
from edgefl.experiment.settings import Experiment
from edgefl.protocol.wire.model_message import unpack
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference, replay
from edgefl.study.simulation.round_loop import simulate
from edgefl.system.durable_files import load_arrays
from tests.server.processes import lines, start, until

CLIENTS, ROUNDS = 2, 6
TRAIN, FROZEN = (
    "last:1",
    ("conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"),
)
EXPERIMENT = (
    f"--train {TRAIN} --method fedspu --keep .5 --clients {CLIENTS} --per-round {CLIENTS} --rounds {ROUNDS} "
    "--eval-every 1 --partition iid --epochs 1"
).split()
HALF = 4 * (32 * 16 * 9 + 32 + 4 * 32 + 10 * 32 * 4 + 10)  # conv2, bn2 and fc at half of 64 and 32 neurons
BLOCKS = 28 + 8 * 8  # header of a payload of 8 blocks
UP, DOWN = HALF + BLOCKS + 8, HALF + BLOCKS + 2 * 8 + 4 + 8  # a hash of the neurons, or bitmaps of 32 and 64 neurons


def test_a_run_of_fedspu_in_the_last_block_survives_kills_and_is_replayed(tmp_path: Path) -> None:
    run, shares = tmp_path / "run", tmp_path / "shares"
    assert main(["partition", *EXPERIMENT, "--out", str(shares)]) == 0
    with ExitStack() as stack:
        server = start(stack, "serve", *EXPERIMENT, "--port", "0", "--run-dir", str(run))
        said = lines(server)
        address = until(said, "listening on").split()[-1]
        commands = [
            ["client", "--server", address, "--id", str(client), "--state", str(tmp_path / f"device{client}"),
             "--data", str(shares / f"device-{client:04d}.npz")]
            for client in range(CLIENTS)
        ]  # fmt: skip
        devices = [start(stack, *command) for command in commands]
        until(said, f"round 2/{ROUNDS}")
        for process in (server, devices[0]):
            process.kill()
            process.wait()
        server = start(stack, "serve", "--resume", str(run), "--port", address.split(":")[1])
        devices[0] = start(stack, *commands[0])
        assert [process.wait(60) for process in (server, *devices)] == [0] * (1 + CLIENTS)
    check_as_simulated(run, tmp_path)
    assert replay(run, tmp_path / "replay", None, 1) == (ROUNDS, None)


def check_as_simulated(run: Path, tmp_path: Path) -> None:
    """Compare server and devices with the simulation, and count the bytes of every message and file."""
    experiment = Experiment.from_json(read_experiment(run))
    assert experiment.train == TRAIN
    federation, journal = assemble(experiment), Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["fedspu"], federation, experiment.settings(1), journal)
    final = run_history.final_state(run)
    assert difference(final, state) is None
    initial = federation.graph.init(rng.stream(experiment.seed, rng.INIT))
    for served, simulated in zip(run_history.metrics(run), journal.metrics(), strict=True):
        sizes = [[(each["down"], each["up"]) for each in record["clients"]] for record in (served, simulated)]
        assert sizes[0] == sizes[1]
        assert sizes[0] == [(DOWN, UP)] * CLIENTS
    for client in range(CLIENTS):
        device = DeviceState(folder_of(tmp_path / f"device{client}"))
        base = unpack(device.model()).params
        for parameter in FROZEN:
            assert (
                base[parameter].tobytes() == final.arrays["model"][parameter].tobytes() == initial[parameter].tobytes()
            )
        kept, _ = load_arrays(device.path / CLIENT_STATE)
        assert not {f"model/{parameter}" for parameter in FROZEN} & kept.keys()
        assert device.personal().flat().keys() == journal.load_client_state(client).flat().keys()  # type: ignore[union-attr]
        device.close()
    journal.close()
