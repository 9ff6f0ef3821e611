"""Update -> bytes, in the one valid form, and the size of each part. The format is specified in codec/__init__.py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgefl.errors import CodecError, SelectionError
from edgefl.models.neurons.block_index import Axes, Flat, Ids, JoinedIds, ids_by_group, slice_index
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.update import Block, Update, flat_index
from edgefl.protocol.codec.coordinates import encode_flat
from edgefl.protocol.codec.format import (
    ALIGNMENT,
    AXES,
    DENSE,
    ENTRY,
    FLAT,
    FLAT_CODED,
    HASH_BYTES,
    HEADER,
    KNOWN,
    KNOWN_MASK,
    MAGIC,
    MASKED,
    VERSION,
    ActiveNeuronSets,
)
from edgefl.protocol.codec.id_tables import write_sets
from edgefl.protocol.codec.ids import Coding
from edgefl.protocol.codec.masks import header_bytes, is_mask
from edgefl.protocol.codec.values import FLAGS, FORMATS, format_of, value_bytes, write_values
from edgefl.rng import Stream

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import ModelSpec
    from edgefl.models.neurons.neuron_set import NeuronSet


@dataclass(frozen=True)
class Sizes:
    """The number of bytes of a payload by purpose."""

    values: int
    index: int
    header: int

    @property
    def total(self) -> int:
        return self.values + self.index + self.header


def encode(
    update: Update,
    spec: ModelSpec,
    *,
    values: str = "float32",
    known: NeuronSet | Mask | None = None,
    random_stream: Stream | None = None,
) -> bytes:
    """Encode an update as a payload. See `pieces`."""
    return b"".join(pieces(update, spec, values=values, known=known, random_stream=random_stream))


def pieces(
    update: Update,
    spec: ModelSpec,
    *,
    values: str = "float32",
    known: NeuronSet | Mask | None = None,
    random_stream: Stream | None = None,
) -> Iterator[bytes | memoryview]:
    """Yield a payload in pieces: all that comes before the values, then the values of each block in order.

    Values in float32 are views of the blocks' own arrays, and not copied.

    values  "float32", which is exact bit for bit, "float16" or "bfloat16", which round to nearest even, or "int8".
            "int8" takes a byte a value and a scale for every 256 values, and rounds up or down at random
    known   neuron set or mask that the receiver also holds. Its hash is written in place of the ids
    random_stream  draws the rounding of int8. None: stream(0, ROUNDING)
    Raises  CodecError naming the block that is not of this model, not float32, restricted in a way that its neuron
            groups (or `known`) do not give, or with a value that the format cannot hold, such as inf in float16.
            ValueError if `values` is not one of FORMATS.
    """
    mask, neurons = (known, None) if isinstance(known, Mask) else (None, known)
    form = next((each for each in FORMATS if each == values), None)
    if form is None:
        raise ValueError(f"values={values!r}; expected one of {', '.join(FORMATS)}")
    blocks = _in_order(update, spec)
    sets = _sets(neurons, mask, blocks, spec)
    for name, block in blocks.items():
        _check_axes(name, block, spec, sets)
    set_table, set_bytes = (b"", b"") if known is not None else write_sets(sets, spec)
    block_table, flat_bytes = _write_blocks(blocks, spec, mask)
    flags = FLAGS[form] | KNOWN * (neurons is not None) | KNOWN_MASK * (mask is not None)
    header = HEADER.pack(MAGIC, VERSION, flags, len(set_table) // ENTRY.size, spec.fingerprint, len(blocks))
    head = [header, known.hash() if known is not None else b"", set_table, block_table, set_bytes, flat_bytes]
    padding = bytes(-sum(map(len, head)) % ALIGNMENT)
    yield b"".join([*head, padding])
    flat = [(name, block.values.reshape(-1)) for name, block in blocks.items()]
    yield from write_values(form, flat, random_stream)


def payload_sizes(update: Update, spec: ModelSpec, known: NeuronSet | Mask | None = None) -> Sizes:
    """Return the bytes by purpose of the payload of an update in float32, whose values are not copied for it.

    Raises  CodecError as `pieces` does
    """
    head = next(pieces(update, spec, known=known))
    return _sizes(head, len(head) + 4 * update.count)


def dense_head(spec: ModelSpec) -> bytes:
    """Return what comes before the values in the payload of every parameter in full, float32."""
    header = HEADER.pack(MAGIC, VERSION, FLAGS["float32"], 0, spec.fingerprint, len(spec.params))
    counts = (math.prod(param.shape) for param in spec.params.values())
    head = header + b"".join(ENTRY.pack(number, DENSE, count) for number, count in enumerate(counts))
    return head + bytes(-len(head) % ALIGNMENT)


def sizes(data: bytes) -> Sizes:
    """Return the bytes of a payload that `encode` or `encode_mask` made, by purpose. Padding counts as index."""
    if is_mask(data):
        return Sizes(0, len(data) - header_bytes(data), header_bytes(data))
    return _sizes(data, len(data))


def _sizes(data: bytes | memoryview, length: int) -> Sizes:
    """Return the sizes of a payload of this length, of which `data` has at least what comes before the values."""
    _, _, flags, set_count, _, block_count = HEADER.unpack_from(data)
    header = HEADER.size + HASH_BYTES * bool(flags & (KNOWN | KNOWN_MASK)) + ENTRY.size * (set_count + block_count)
    blocks = ENTRY.iter_unpack(data[header - ENTRY.size * block_count : header])
    values = value_bytes(format_of(flags), [count for _, _, count in blocks])
    return Sizes(values, length - header - values, header)


def _in_order(update: Update, spec: ModelSpec) -> dict[str, Block]:
    """Return the blocks in the order of the specification, after a check that they belong to this model."""
    if max(len(spec.params), len(spec.groups)) > 2**16:
        raise CodecError(f"model of {len(spec.params)} parameters, {len(spec.groups)} groups; expected at most 65536")
    for name, block in update.blocks.items():
        if name not in spec.params:
            raise CodecError(f"block {name!r} is not a parameter of the model")
        if block.shape != spec.params[name].shape:
            raise CodecError(f"block {name!r} of shape {block.shape}; expected {spec.params[name].shape}")
        if block.values.dtype != np.float32:
            raise CodecError(f"block {name!r} of type {block.values.dtype}; expected float32")
    return {name: update.blocks[name] for name in spec.params if name in update.blocks}


def _sets(
    neurons: NeuronSet | None, mask: Mask | None, blocks: Mapping[str, Block], spec: ModelSpec
) -> ActiveNeuronSets:
    """Return the id sets that restrict the blocks: sets of the receiver, no sets for a mask, or sets of the blocks."""
    if neurons is not None:
        return _known_sets(neurons, spec)
    return ActiveNeuronSets({}, {}) if mask is not None else _collect_sets(blocks, spec)


def _collect_sets(blocks: Mapping[str, Block], spec: ModelSpec) -> ActiveNeuronSets:
    active: dict[str, npt.NDArray[np.int32]] = {}
    keys: dict[str, int | None] = {}
    for name, block in blocks.items():
        if isinstance(block.index, Axes):
            param = spec.params[name]
            for ids, axis in ((block.index.rows, param.rows), (block.index.cols, param.cols)):
                for group, part in ids_by_group(axis, ids):
                    active.setdefault(group, part.neurons)
                    if keys.get(group) is None:
                        keys[group] = part.key
    return ActiveNeuronSets({group: active[group] for group in spec.groups if group in active}, keys)


def _known_sets(known: NeuronSet, spec: ModelSpec) -> ActiveNeuronSets:
    try:
        known.check(spec)
    except SelectionError as error:
        raise CodecError(str(error)) from None
    return ActiveNeuronSets(known.active, known.keys)


def _check_axes(name: str, block: Block, spec: ModelSpec, sets: ActiveNeuronSets) -> None:
    """Raise CodecError unless the rows and columns of a block are the ones that the id sets give."""
    if not isinstance(block.index, Axes):
        return
    try:
        given = sets.axes(spec.params[name], spec)
    except SelectionError as error:
        raise CodecError(f"block {name!r}: {error}") from None
    rows, cols = (given.rows, given.cols) if given is not None else (None, None)
    for axis, (ids, expected) in enumerate([(block.index.rows, rows), (block.index.cols, cols)]):
        if ids != expected:
            raise CodecError(
                f"block {name!r}: axis {axis} keeps {_brief(ids)}; its neuron group gives {_brief(expected)}"
            )


def _brief(ids: Ids | None) -> str:
    if ids is None:
        return "all neurons"
    if isinstance(ids, JoinedIds):
        return ", then ".join(f"{part} indices" if isinstance(part, int) else _brief(part) for part in ids.parts)
    return f"{ids.neurons.size} of {ids.size} neurons x {ids.repeat}, {ids.neurons[:5].tolist()}..."


def _write_blocks(blocks: Mapping[str, Block], spec: ModelSpec, mask: Mask | None) -> tuple[bytes, bytes]:
    number = {name: i for i, name in enumerate(spec.params)}
    table, payload = [], []
    for name, block in blocks.items():
        is_all = block.index == slice_index(spec, name)  # all that training moves, which the receiver knows
        coding = DENSE if is_all else AXES
        if block.index is None and not is_all:
            raise CodecError(f"block {name!r} is whole; expected the slice {spec.slices[name].text}, which is trained")
        if mask is not None and name in mask.bits and block.index == flat_index(mask, name):
            coding = MASKED
        elif not is_all and isinstance(block.index, Flat):
            id_coding, data = encode_flat(f"block {name!r}", block.index.ids, block.index.size)
            coding = FLAT_CODED if id_coding is Coding.CODED else FLAT + id_coding
            payload.append(data)
        table.append(ENTRY.pack(number[name], coding, block.values.size))
    return b"".join(table), b"".join(payload)
