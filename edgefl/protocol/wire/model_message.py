"""A model as bytes, for its way to a device: the graph as JSON text, then every parameter.

    4  length of the text in bytes, little-endian
       text of graph_json.dumps, UTF-8
       codec payload: every float32 parameter in full, exact
       every quantized parameter in the order of parameters: its codes, then its float32 scales

One model has one form. The SHA-256 of the whole, which Welcome carries, checks the chunks (messages.ModelChunk). Files
of models for other programs are in models/graph/model_files.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from edgefl.errors import CodecError
from edgefl.kernels.memory import aligned_bytes
from edgefl.models.graph import Graph, Model
from edgefl.models.graph import json as graph_json
from edgefl.models.graph.json import Limits
from edgefl.models.graph.operations import Kind, Shape
from edgefl.models.graph.quantized_array import QuantizedArray
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Array, Block, Update
from edgefl.protocol import codec
from edgefl.protocol.codec.format import ENTRY, HEADER
from edgefl.protocol.wire.messages import CHUNK_BYTES, ModelChunk
from edgefl.protocol.wire.packed_model import PackedModel

LENGTH_BYTES = 4
FROM_HERE = 1  # io.SEEK_CUR
FRAME_ALLOWANCE = 1 << 16  # bytes of a message without payloads
DENSE_PAYLOADS = 4  # number of dense payloads that one message may carry
LARGEST_MODEL = (  # in bytes, under Limits(). A node has at most 4 parameters
    LENGTH_BYTES + Limits.text_bytes + HEADER.size + 4 * Limits.nodes * ENTRY.size + 4 * Limits.parameters
)


Wanted = Callable[[str, Kind], bool]
"""Whether a parameter of this name and kind is read."""


def everything(name: str, kind: Kind) -> bool:
    """Return True, as every parameter is wanted."""
    return True


def exchanged(name: str, kind: Kind) -> bool:
    """Return whether messages of a round may carry a parameter of this kind."""
    return kind != "frozen"


def nothing(name: str, kind: Kind) -> bool:
    """Return False, as no parameter is wanted."""
    return False


class Source(Protocol):
    """The protocol of bytes that are read one after another. An open file follows this protocol."""

    def read(self, size: int, /) -> bytes: ...

    def readinto(self, memory: memoryview, /) -> int: ...

    def seek(self, size: int, whence: int, /) -> int: ...


class _Bytes:
    """Bytes in memory as a Source."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    def read(self, size: int) -> bytes:
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def readinto(self, memory: memoryview) -> int:
        found = self._data[self._at :][: len(memory)]
        memory[: len(found)] = found
        self._at += len(found)
        return len(found)

    def seek(self, size: int, whence: int) -> int:
        self._at += size
        return self._at


def packed(model: Model) -> PackedModel:
    """Return a model as bytes that are made when they are asked for. The arrays of the model must not change then.

    Raises  GraphError if the parameters do not belong to the graph.
    """
    model.graph.check(model.params)
    spec = dense_spec(model.graph)
    text = graph_json.dumps(model.graph).encode()
    whole = Update({name: Block(param.shape, None, model.params[name]) for name, param in spec.params.items()})
    quantized = (piece for name in quantized_bytes(model.graph) for piece in _pieces(model.params[name]))  # type: ignore[arg-type]
    return PackedModel([len(text).to_bytes(LENGTH_BYTES, "little"), text, *codec.pieces(whole, spec), *quantized])


def pack(model: Model) -> bytes:
    """Return the bytes of a model. Raises GraphError if the parameters do not belong to the graph."""
    return packed(model)[:]


def unpack(data: bytes, limits: Limits | None = None) -> Model:
    """Unpack the model that `pack` wrote, as `read` does."""
    return read(_Bytes(data), len(data), limits)


def read(
    source: Source,
    size: int,
    limits: Limits | None = None,
    wanted: Wanted = everything,
) -> Model:
    """Read the model that `pack` wrote. Each parameter is read once, into read-only memory of its own.

    source  the bytes of the model, as an open file is
    size    bytes of the model
    limits  limits of the graph, None for Limits(). They are checked before any allocation of the model's size
    wanted  whether a parameter of this name and kind is read. The model lacks the other parameters
    Raises  GraphError if the text is not a graph within the limits. CodecError if the text has another form than `pack`
            writes, or the rest is not all parameters of the graph, or the bytes end before the model does
    """
    graph, start = _read_graph(source, size, limits or Limits())
    spec, quantized = dense_spec(graph), quantized_bytes(graph)
    expected, head = dense_bytes(spec) + sum(quantized.values()), codec.dense_head(spec)
    if size - start != expected:
        how = "in the precisions of the graph" if quantized else "as float32"
        raise CodecError(f"parameters of {size - start} bytes; expected {expected}, all of them {how}")
    if (found := source.read(len(head))) != head:
        raise _refusal(found + source.read(expected - len(head)), spec)
    params = {}
    for name, param in spec.params.items():
        if wanted(name, param.kind):
            params[name] = _read_parameter(source, param.shape)
        else:
            source.seek(4 * math.prod(param.shape), FROM_HERE)
    for name, count in quantized.items():
        if wanted(name, "frozen"):
            params[name] = _read_quantized(source, graph, name)  # type: ignore[assignment]
        else:
            source.seek(count, FROM_HERE)
    return Model(graph, {name: params[name] for name in graph.parameters() if name in params})


def digest(data: bytes | PackedModel) -> bytes:
    """Return the SHA-256, 32 bytes, that stands for a packed model in Enrol and Welcome."""
    return data.digest() if isinstance(data, PackedModel) else hashlib.sha256(data).digest()


def chunks(data: bytes | PackedModel, offset: int) -> Iterator[ModelChunk]:
    """Yield a packed model from the byte `offset` on, in the messages that answer ModelRequest."""
    for start in range(offset, len(data), CHUNK_BYTES):
        yield ModelChunk(start, data[start : start + CHUNK_BYTES])


def dense_spec(graph: Graph) -> ModelSpec:
    """Return the specification of the float32 parameters of a graph, each of them whole."""
    spec = ModelSpec.of(graph).without_slices
    found = graph.quantized_by_name
    return replace(spec, params={name: param for name, param in spec.params.items() if name not in found})


def quantized_bytes(graph: Graph) -> dict[str, int]:
    """Return the bytes of each quantized parameter in a packed model, in their order there."""
    found = graph.quantized_by_name
    return {name: found[name].nbytes(info.shape) for name, info in graph.parameters().items() if name in found}


def dense_bytes(spec: ModelSpec) -> int:
    """Return the size in bytes of the codec payload of every parameter in full, float32."""
    return len(codec.dense_head(spec)) + sum(4 * math.prod(param.shape) for param in spec.params.values())


def frame_cap(exchanged_bytes: int) -> int:
    """Return the size in bytes of the largest message about a model. It may hold some dense payloads.

    exchanged_bytes  bytes of the packed model without its frozen parameters, which no message of a round carries
    """
    return FRAME_ALLOWANCE + DENSE_PAYLOADS * max(exchanged_bytes, 0)


def _read_graph(source: Source, size: int, limits: Limits) -> tuple[Graph, int]:
    """Read the graph at the beginning of a packed model of `size` bytes. Return it with the number of bytes read."""
    length = int.from_bytes(source.read(min(size, LENGTH_BYTES)), "little")
    start = LENGTH_BYTES + length
    if length > limits.text_bytes:
        raise CodecError(f"graph text of {length} bytes; the limit is {limits.text_bytes}")
    if size < start:
        raise CodecError(f"model of {size} bytes; expected at least {start}, the size of its graph")
    text = source.read(length)
    graph = graph_json.loads(text, limits)
    if graph_json.dumps(graph).encode() != text:
        raise CodecError(
            f"graph text of {length} bytes in another form; expected the form that graph_json.dumps writes"
        )
    return graph, start


def _read_parameter(source: Source, shape: Shape) -> Array:
    """Read the values of a parameter, which come next, into read-only memory."""
    memory = aligned_bytes(4 * math.prod(shape))
    _fill(source, memory.data)
    values = memory.view("<f4").astype(np.float32, copy=False).reshape(shape)
    values.flags.writeable = False
    return values


def _read_quantized(source: Source, graph: Graph, name: str) -> QuantizedArray:
    """Read the codes and scales of a quantized parameter, which come next, into read-only memory."""
    shape, each = graph.parameters()[name].shape, graph.quantized_by_name[name]
    codes = aligned_bytes(each.nbytes(shape) - 4 * each.scales(shape))
    _fill(source, codes.data)
    scale = _read_parameter(source, (each.scales(shape),)) if each.precision == "int8" else None
    return QuantizedArray(shape, codes, scale, each.axis)


def _pieces(value: QuantizedArray) -> Iterator[memoryview]:
    """Yield the bytes of a quantized parameter."""
    yield value.codes.reshape(-1).data
    if value.scale is not None:
        yield np.ascontiguousarray(value.scale, "<f4").view(np.uint8).data


def _fill(source: Source, memory: memoryview) -> None:
    if (count := source.readinto(memory)) != len(memory):
        raise CodecError(f"{count} bytes of a parameter; expected {len(memory)}")


def _refusal(payload: bytes, spec: ModelSpec) -> CodecError:
    """Return what is wrong with the payload of a model that does not begin as it should."""
    try:
        blocks = codec.decode(payload, spec, limit=len(payload)).blocks
    except CodecError as error:
        return error
    name = next(each for each in spec.params if each not in blocks or blocks[each].index is not None)
    return CodecError(f"parameter {name!r} is incomplete; expected all its values")
