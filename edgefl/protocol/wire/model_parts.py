"""The parts of a packed model that a device may hold from an earlier run, by their SHA-256: the frozen parameters.

A run has its own trained values, but the frozen base of many runs is equal. So the server lists the byte ranges of the
frozen parameters with their digests (messages.ModelParts), and sends the rest of the model. model_message.py packs
models, and deployment/device/base_store.py keeps parts on a device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import CHUNK_BYTES, MOST_PARTS, ModelChunk, ModelPart
from edgefl.protocol.wire.model_message import dense_spec, digest, quantized_bytes
from edgefl.protocol.wire.packed_model import PackedModel

VALUE_BYTES = 4
LEAST_BYTES = 128  # bytes of the smallest part that is listed. An entry of the list has about 50 bytes

Range = tuple[int, int]
"""The first byte of a range in a packed model, and the byte after its last."""


def frozen_parts(graph: Graph, packed: bytes | PackedModel) -> list[ModelPart]:
    """Return the parts of a packed model in the order of their offsets: at most MOST_PARTS parts, the largest ones.

    graph   graph of the packed model
    packed  the model as `model_message.pack` wrote it, whose values come last: float32 parameters in their order, then
            quantized ones
    """
    params, sizes = ModelSpec.of(graph).params, _sizes(graph)
    offset, found = len(packed) - sum(sizes.values()), []
    for name, size in sizes.items():
        if params[name].kind == "frozen" and size >= LEAST_BYTES:
            found.append(ModelPart(offset, size, _digest(packed, offset, offset + size)))
        offset += size
    largest = sorted(found, key=lambda part: -part.size)[:MOST_PARTS]
    return sorted(largest, key=lambda part: part.offset)


def total_bytes(parts: Iterable[ModelPart]) -> int:
    """Return the bytes of these parts together."""
    return sum(part.size for part in parts)


def frozen_bytes(graph: Graph) -> int:
    """Return the bytes of the frozen parameters of a graph in a packed model."""
    params = ModelSpec.of(graph).params
    return sum(size for name, size in _sizes(graph).items() if params[name].kind == "frozen")


def _sizes(graph: Graph) -> dict[str, int]:
    """Return the bytes of every parameter in a packed model, in their order there."""
    dense = {name: VALUE_BYTES * math.prod(param.shape) for name, param in dense_spec(graph).params.items()}
    return dense | quantized_bytes(graph)


def bitmap(flags: Sequence[bool]) -> bytes:
    """Return one bit for each flag, the first flag in the lowest bit of the first byte."""
    number = sum(1 << at for at, flag in enumerate(flags) if flag)
    return number.to_bytes(-(-len(flags) // 8), "little")


def is_bitmap_of(held: bytes, count: int) -> bool:
    """Return whether the bytes are a bitmap of `count` parts, without bits beyond the last part."""
    return len(held) == -(-count // 8) and int.from_bytes(held, "little") >> count == 0


def held_ranges(parts: Iterable[ModelPart], held: bytes) -> list[Range]:
    """Return the ranges of the parts that a bitmap names."""
    bits = int.from_bytes(held, "little")
    return [(part.offset, part.offset + part.size) for at, part in enumerate(parts) if bits >> at & 1]


def missing_from(offset: int, end: int, held: Iterable[Range]) -> list[Range]:
    """Return the ranges from `offset` to `end` that are not in the ascending ranges `held`. They are not empty."""
    found = []
    for first, after in held:
        if offset < first:
            found.append((offset, first))
        offset = max(offset, after)
    return [*found, (offset, end)] if offset < end else found


def chunks_of(data: bytes | PackedModel, ranges: Iterable[Range]) -> Iterator[ModelChunk]:
    """Yield these ranges of a packed model, in the messages that answer PartialModelRequest."""
    for first, end in ranges:
        for start in range(first, end, CHUNK_BYTES):
            yield ModelChunk(start, data[start : min(start + CHUNK_BYTES, end)])


def _digest(packed: bytes | PackedModel, first: int, end: int) -> bytes:
    return packed.digest(first, end) if isinstance(packed, PackedModel) else digest(packed[first:end])
