"""The targets of fuzzing, one function per reader: any bytes go in, nothing comes out, and any error is a fault.

A reader refuses bytes with the error that it promises. What it accepts it must also give back: written again, a payload
or a model is the very bytes that were read. guided.py drives these with atheris, and test_targets.py runs the corpora
in the suite.
"""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edgefl import rng
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.supernode import message_tables
from edgefl.errors import CodecError, DataError, GraphError, RemoteProtocolError, RunError
from edgefl.experiment.client_dataset import read_partition
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.idx import read_idx
from edgefl.experiment.data.npz import read_npz
from edgefl.experiment.data.speech import read_wav
from edgefl.experiment.run_json import read_experiment
from edgefl.methods.rounds.state_file import load
from edgefl.models.graph import Graph, model_files
from edgefl.models.graph import json as graph_json
from edgefl.models.graph.graph import INPUT, Node
from edgefl.models.graph.json import Limits
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.protocol import codec
from edgefl.protocol.codec.entropy_code import decode_bits, encode_bits
from edgefl.protocol.codec.masks import decode_mask, encode_mask, is_difference
from edgefl.protocol.codec.neurons import decode_neurons, encode_neurons
from edgefl.protocol.codec.values import format_of
from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.model_message import pack, unpack

LIMIT = 1 << 16
LIMITS = Limits(text_bytes=1 << 14, nodes=64, parameters=1 << 14, activations=1 << 14)


def small() -> Graph:
    """Two groups of neurons, a running statistic, and a head."""
    ops = (Conv2d(1, 6, (3, 3)), BatchNorm2d(6), ReLU(), Flatten(), Linear(24, 9), ReLU(), Linear(9, 3))
    names = [INPUT, *(f"n{i}" for i in range(len(ops)))]
    return Graph((1, 4, 4), tuple(Node(names[i + 1], op, (names[i],)) for i, op in enumerate(ops)))


GRAPH = small()
SPEC = ModelSpec.of(GRAPH)
NEURONS = NeuronSet.draw(SPEC, 0.5, rng.stream(1, rng.NEURONS))
MASK = Mask.of(
    SPEC,
    {
        name: np.arange(np.prod(param.shape)).reshape(param.shape) % 3 == 0
        for name, param in SPEC.params.items()
        if name.endswith("weight") and param.kind == "learn"
    },
)
SCRATCH = Path(tempfile.mkdtemp(prefix="edgefl-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def payload(data: bytes) -> None:
    """The codec: the first byte says what the receiver knows, the rest is the payload."""
    known = (None, NEURONS, MASK)[data[0] % 3] if data else None
    content = data[1:]
    try:
        update = codec.decode(content, SPEC, limit=LIMIT, known=known)
    except CodecError:
        return
    values = format_of(content[5])
    assert codec.encode(update, SPEC, values=values, known=known) == content, "a payload with two forms"


def neurons(data: bytes) -> None:
    """Neurons and masks that travel alone, the latter whether or not the receiver holds one."""
    for decode, encode, known in (
        (decode_neurons, encode_neurons, {}),
        (decode_mask, encode_mask, {}),
        (decode_mask, encode_mask, {"known": MASK}),
    ):
        try:
            found = decode(data, SPEC, **known)  # type: ignore[operator]
        except CodecError:
            continue
        held = known if is_difference(data) else {}
        assert encode(found, SPEC, **held) == data, "ids with two forms"  # type: ignore[operator]


def code(data: bytes) -> None:
    """The code of a mask: two bytes of each of the numbers of bits and of ones, then the code and what may follow."""
    n, k = int.from_bytes(data[:2], "little") % 4096, int.from_bytes(data[2:4], "little")
    if k > n:
        return
    try:
        bits, size = decode_bits("mask", memoryview(data)[4:], (n,), k)
    except CodecError:
        return
    assert np.count_nonzero(bits) == k
    assert encode_bits(bits, k) == data[4 : 4 + size], "bits with two codes"


def frame(data: bytes) -> None:
    """Frames, in two pieces: the first byte says where they are cut. The same frames must come out as of one piece."""
    at = data[0] if data else 0
    stream = data[1:]
    assert _frames([stream]) == _frames([stream[:at], stream[at:]])


def _frames(pieces: list[bytes]) -> list[object]:
    decoder, found = frames.Decoder(LIMIT), list[object]()
    try:
        for piece in pieces:
            for number, body in decoder.receive(piece):
                found.append((number, bytes(body)))
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


def message(data: bytes) -> None:
    """A message: its number, then its body."""
    number = data[0] % 16 if data else 0
    try:
        found = messages.decode(number, data[1:])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return
    again = messages.encode(found)
    assert messages.encode(messages.decode(number, again)) == again, "a message that changes"


def conversation(data: bytes) -> None:
    """Messages in a row to a side, framed as they must be: its role, then for each its number, length and body."""
    role, rest = ("device", "server")[data[0] % 2] if data else "device", data[1:]
    connection, sequence = Connection(role), 0  # type: ignore[arg-type]
    try:
        while len(rest) > 3:
            size = int.from_bytes(rest[1:3], "little")
            body, kind = rest[3 : 3 + size], rest[0] % 16
            rest = rest[3 + size :]
            if body:
                connection.receive(frames.encode(kind, sequence, body))
                sequence += 1
    except RemoteProtocolError as error:
        assert connection.refuse(str(error)) or connection.state == "closed"


def model(data: bytes) -> None:
    """A packed model."""
    try:
        found = unpack(data, LIMITS)
    except (CodecError, GraphError):
        return
    assert pack(found) == data, "a model with two forms"


def graph(data: bytes) -> None:
    """A graph's text."""
    try:
        found = graph_json.loads(data, LIMITS)
    except GraphError:
        return
    assert graph_json.loads(graph_json.dumps(found), LIMITS) == found
    ModelSpec.of(found)


def state(data: bytes) -> None:
    """Read a file of a device's or server's state. The first byte says which file."""
    names = ("local.safetensors", "pending.safetensors", "device.json", "run.json", "server", "model")
    name = names[data[0] % len(names)] if data else "server"
    root = SCRATCH / "state"
    root.mkdir(exist_ok=True)
    for old in root.iterdir():
        old.unlink()
    file = root / name
    file.write_bytes(data[1:])
    try:
        if name == "run.json":
            read_experiment(root)
        elif name == "server":
            load(file, {})
        elif name == "model":
            model_files.load(file, LIMITS)
        else:
            _open(root)
    except (RunError, GraphError):
        return


def _open(root: Path) -> None:
    found = DeviceState(root)
    try:
        found.personal()
        if found.pending:
            found.reply()
    finally:
        found.close()


def npz(data: bytes) -> None:
    """A data set, and a device's share of one, in an npz file."""
    file = SCRATCH / "data.npz"
    file.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for read in (read_npz, read_partition):
            try:
                found = read(file)
            except DataError:
                continue
            assert not isinstance(found, DataSet) or found.classes > found.y.max(initial=-1)


def wav(data: bytes) -> None:
    """A clip, and images in the format of MNIST."""
    for read in (lambda stream: read_wav(stream, "clip"), lambda stream: read_idx(stream, "images", (2, 3, 3))):
        try:
            read(io.BytesIO(data))
        except DataError:
            continue


def fleet(data: bytes) -> None:
    """Read a message of Flower's Fleet API: its number, then its bytes. What was read is written, and reads equal
    again.
    """
    kinds = sorted(message_tables.SHAPES)
    kind = kinds[data[0] % len(kinds)] if data else kinds[0]
    try:
        found = message_tables.read(kind, data[1:])
    except CodecError:
        return
    again = message_tables.write(kind, found)
    assert message_tables.write(kind, message_tables.read(kind, again)) == again, "a message that changes"


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (payload, neurons, code, frame, message, conversation, model, graph, state, npz, wav, fleet)
}


def clean() -> None:
    """Removes what the targets have written."""
    for folder, _, names in os.walk(SCRATCH, topdown=False):
        for name in names:
            (Path(folder) / name).unlink()
        Path(folder).rmdir()
