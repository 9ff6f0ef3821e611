"""A trained part of a pretrained model in a run of real processes that are killed.

The run ends as `edgefl simulate`, and a replay agrees. Payloads have the bytes of the formula, in the metrics and on
the wire. Each device gets the model once. Frozen parameters are equal to the bit on the server, on every device and in
the simulation.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.state_reader import folder_of
from edgefl.experiment.run_json import read_experiment
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.models.graph import Model, Params, model_files
from edgefl.models.neurons.trained_part import with_trained
from edgefl.protocol.wire.messages import Message, ModelChunk, Train, Trained
from edgefl.protocol.wire.model_message import pack
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference, replay
from edgefl.torch import from_torch
from tests.forked import ForkedCommand
from tests.server.counted_wire import CountedWire, counted_wire
from tests.server.processes import lines, start, until
from tests.zoo.zoo import mobilenet_v2

CLIENTS, ROUNDS, SIDE, CLASSES, STRUCK = 3, 3, 12, 5, 2
EXPERIMENT = (
    f"--clients {CLIENTS} --per-round {CLIENTS} --rounds {ROUNDS} --eval-every 1 --partition iid --epochs 1 "
    "--batch 8 --lr .05"
).split()


def blocks(half: int = 1) -> int:
    """Return the values of the last two blocks and the head, of which 1 / half of the neurons are active.

    A block has a convolution from i to h channels, a depthwise one, and one from h to o. A BatchNorm has four values
    for each channel.
    """
    values = 0
    for i, h, o in ((4, 12, 6), (6, 12, 6)):
        i, h, o = i // half, h // half, o // half
        values += h * i + 4 * h + 9 * h + 4 * h + o * h + 4 * o
    return values + CLASSES * 6 // half + CLASSES


def payload(values: int, parameters: int) -> int:
    """Return the bytes of a payload of whole blocks."""
    return 4 * values + 28 + 8 * parameters


BIASES = payload(4 + 20 + 30 + 30 + CLASSES, 11)
BLOCKS = payload(blocks(), 32)
HEAD = payload(6 * CLASSES + CLASSES, 2)
HALF = payload(blocks(2), 32)
GROUPS = 4 * 8 + 8  # entries and bitmaps of the groups with 4, 12, 6 and 12 neurons, in whole words
SELECTION = 24 + 5 * 8 + 7  # all five groups: a frozen block has neurons of which the payload says nothing
WHOLE = 24  # a selection without an inactive neuron
HASH = 8  # a reply names the neurons by a hash
LISTED = 4 * (4 * 27 + 8 * 4 + 8 * 9 + 4 * 8)  # bytes of the convolutions before the last two blocks
LATE = ("4.", "5.", "8.")  # beginnings of the names of the last two blocks and of the head


SLICES = "5.layers.6.weight[0:3],8.weight[:, 2:6]"  # of the shapes (6, 12, 1, 1) and (5, 6)
SLICE = payload(3 * 12 + CLASSES * 4, 2)


class Row(NamedTuple):
    """A method and a trained part, with the bytes that each client gets and sends in a round."""

    method: tuple[str, ...]
    train: str
    down: tuple[int, ...]
    up: tuple[int, ...]


ROWS = {
    "biases": Row(("fedavg",), "biases", (BIASES,) * CLIENTS, (BIASES,) * CLIENTS),
    "last two blocks": Row(("fedavg",), "last:2", (BLOCKS,) * CLIENTS, (BLOCKS,) * CLIENTS),
    "head": Row(("fedavg",), "head", (HEAD,) * CLIENTS, (HEAD,) * CLIENTS),
    "slices under ditto": Row(("ditto",), SLICES, (SLICE,) * CLIENTS, (SLICE,) * CLIENTS),
    "fedspu in two blocks": Row(
        ("fedspu", "--keep", ".5,1"),
        "last:2",
        (HALF + GROUPS + SELECTION, HALF + GROUPS + SELECTION, BLOCKS + WHOLE),
        (HALF + HASH, HALF + HASH, BLOCKS + HASH),
    ),
}


def is_trained(train: str, name: str) -> bool:
    """Return whether a parameter belongs to a part, by its name."""
    beginnings = {"biases": (), "head": ("8.",), "last:2": LATE, SLICES: ("5.layers.6.weight", "8.weight")}[train]
    return name.startswith(beginnings) if beginnings else name.endswith(".bias")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a MobileNetV2-like model whose norms are not at their start, and with images in five classes."""
    path, draw = tmp_path_factory.mktemp("given"), np.random.default_rng(7)
    torch.manual_seed(1)
    model = from_torch(mobilenet_v2(), torch.zeros(1, 3, SIDE, SIDE))
    for value in model.params.values():
        if value.ndim == 1:
            value += draw.uniform(0.1, 0.4, value.shape).astype(np.float32)
    model_files.save(path / "base.safetensors", model)
    y = np.arange(90) % CLASSES
    x = draw.integers(0, 128, (90, 3, SIDE, SIDE)) + 25 * y[:, None, None, None]
    np.savez(path / "made.npz", x=x.astype(np.uint8), y=y)
    return path


class Outcome(NamedTuple):
    """A run that has ended, with its initial model, and the wire of each device."""

    run: Path
    model: Model
    wires: list[CountedWire]


def play(given: Path, path: Path, row: Row, run: Path, is_killed: bool) -> Outcome:
    """Run a server and its devices to the end. They take their state from `path`.

    is_killed  kill device 0 when its reply of round 2 is on its way, and then the server, and start both again
    """
    experiment = [*EXPERIMENT, "--data", str(given / "made.npz"), "--model", str(given / "base.safetensors")]
    chosen = ["--train", row.train, "--method", *row.method]
    shares = path / "shares"
    if not shares.exists():
        assert main(["partition", *experiment, *chosen, "--out", str(shares)]) == 0
    with ExitStack() as stack:
        server = start(stack, "serve", *experiment, *chosen, "--port", "0", "--run-dir", str(run))
        address = until(lines(server), "listening on").split()[-1]
        wires = [stack.enter_context(counted_wire(address)) for _ in range(CLIENTS)]
        commands = [
            ["client", "--server", wire.address, "--id", str(client), "--state", str(path / f"device{client}"),
             "--data", str(shares / f"device-{client:04d}.npz")]
            for client, wire in enumerate(wires)
        ]  # fmt: skip
        devices: list[ForkedCommand] = []
        struck = killing(wires[0], devices)
        if not is_killed:
            wires[0].strike = CountedWire.strike
        devices += [start(stack, *command) for command in commands]
        if is_killed:
            assert struck.wait(60)
            server.kill()
            server.wait()
            assert len(run_history.metrics(run)) == STRUCK - 1
            server = start(stack, "serve", "--resume", str(run), "--port", address.split(":")[1])
            devices[0] = start(stack, *commands[0])
        assert [process.wait(60) for process in (server, *devices)] == [0] * (1 + CLIENTS)
    model = model_files.load(run / "model.safetensors")
    return Outcome(run, model._replace(graph=with_trained(model.graph, row.train)), wires)


def killing(wire: CountedWire, devices: list[ForkedCommand]) -> threading.Event:
    """Kill the first device when it sends its reply of round STRUCK for the first time. The server does not get it."""
    struck = threading.Event()

    def strike(message: Message) -> bool:
        if not isinstance(message, Trained) or message.round != STRUCK or struck.is_set():
            return False
        devices[0].kill()
        devices[0].wait()
        struck.set()
        return True

    wire.strike = strike
    return struck


@pytest.mark.parametrize("name", ROWS)
def test_a_trained_part_survives_kills_and_is_replayed(given: Path, tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    played = play(given, tmp_path, row, tmp_path / "run", True)
    check_wires(row, played)
    simulated = tmp_path / "simulated"
    options = ["--data", str(given / "made.npz"), "--model", str(given / "base.safetensors"), "--train", row.train]
    command = ["simulate", *EXPERIMENT, *options, "--method", *row.method, "--run-dir", str(simulated)]
    assert main(command) == 0
    journal = Journal(simulated / row.method[0])
    check_as_simulated(row, played, journal, tmp_path)
    journal.close()
    assert replay(played.run, tmp_path / "replay", None, 1) == (ROUNDS, None)


def check_wires(row: Row, played: Outcome) -> None:
    """Each payload has the bytes of the formula, and each device has got the model once."""
    for client, wire in enumerate(played.wires):
        assert {each.round for each in wire.up if isinstance(each, Trained)} == {1, 2, 3}
        assert set(wire.payloads(Trained)) == {row.up[client]}
        assert set(wire.payloads(Train)) == {row.down[client]}
        assert sum(wire.payloads(ModelChunk)) == len(pack(played.model))


def check_as_simulated(row: Row, played: Outcome, journal: Journal, devices: Path) -> None:
    """The server and each device end as in the simulation, and every frozen parameter as in the model's file."""
    assert read_experiment(played.run)["train"] == row.train
    final, state = run_history.final_state(played.run), journal.load_state()
    assert difference(final, state) is None
    for served, simulated in zip(run_history.metrics(played.run), journal.metrics(), strict=True):
        assert served["evaluation"] == simulated["evaluation"]
        for record in (served, simulated):
            assert tuple(each["down"] for each in record["clients"]) == row.down
            assert tuple(each["up"] for each in record["clients"]) == row.up
    frozen = {name: value for name, value in played.model.params.items() if not is_trained(row.train, name)}
    assert frozen.keys() == played.model.graph.frozen
    for client in range(CLIENTS):
        device = DeviceState(folder_of(devices / f"device{client}"))
        check_frozen(frozen, device.model().params)
        kept = content(device.personal())
        assert kept == content(journal.load_client_state(client))
        assert not {f"model/{name}" for name in frozen} & kept.keys()
        assert bool(kept) == (row.method[0] in ("fedspu", "ditto"))
        device.close()
    if row.train == SLICES:
        for params in (final.arrays["model"], personal_model(devices / "device0")):
            assert outside_slices(params) == outside_slices(played.model.params)
            assert params["8.weight"].tobytes() != played.model.params["8.weight"].tobytes()
    check_frozen(frozen, final.arrays["model"])
    check_frozen(frozen, state.arrays["model"])


def content(kept: StoredClientState | None) -> dict[str, bytes]:
    """Return the arrays that a client keeps. A client of FedAvg keeps none."""
    return {} if kept is None else {name: value.tobytes() for name, value in kept.flat().items()}


def personal_model(directory: Path) -> Params:
    """Return the personal model that lies in a device's directory."""
    device = DeviceState(folder_of(directory))
    kept = device.personal()
    device.close()
    assert kept is not None
    return dict(kept.params)


def outside_slices(params: Params) -> list[bytes]:
    return [params["5.layers.6.weight"][3:].tobytes(), params["8.weight"][:, :2].tobytes()]


def check_frozen(frozen: Params, found: Params) -> None:
    for name, value in frozen.items():
        assert value.tobytes() == found[name].tobytes(), name


def test_a_later_run_sends_no_byte_of_the_base_again(given: Path, tmp_path: Path) -> None:
    """The first run trains the head, and the second run the last two blocks. Parameters of less than 128 bytes are not
    listed.
    """
    first = play(given, tmp_path, ROWS["head"], tmp_path / "first", False)
    second = play(given, tmp_path, ROWS["last two blocks"], tmp_path / "second", False)
    for before, after in zip(first.wires, second.wires, strict=True):
        assert sum(before.payloads(ModelChunk)) == len(pack(first.model))
        assert sum(after.payloads(ModelChunk)) == len(pack(second.model)) - LISTED
