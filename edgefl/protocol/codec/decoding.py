"""bytes -> Update: the inverse of encoding.encode, for bytes that anybody may have sent.

The decoder trusts no byte. It checks every number against the specification and the size of the payload before it uses
the number, and every check has a named test. The format is specified in codec/__init__.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgefl.errors import CodecError
from edgefl.models.neurons.block_index import Axes, Flat, block_shape, slice_index
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import groups_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update, flat_index
from edgefl.protocol.codec.coordinates import read_flat
from edgefl.protocol.codec.format import (
    ALL_FLAGS,
    AXES,
    DENSE,
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
    Format,
)
from edgefl.protocol.codec.id_tables import ByteReader, Entry, read_sets, read_table
from edgefl.protocol.codec.ids import Coding
from edgefl.protocol.codec.values import format_of, read_values, value_bytes

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import ModelSpec


def decode(data: bytes, spec: ModelSpec, *, limit: int, known: NeuronSet | Mask | None = None) -> Update:
    """Decode a payload into its update, whose values are float32.

    data   payload. `bytes` are not copied: float32 values are read-only views of them. Other buffers are copied first
    limit  largest size that is accepted, in bytes
    known  neuron set or mask whose hash the payload must carry. None: the payload must carry its own ids
    Raises CodecError if `data` is not the one valid payload of an update of this model. The message names the place,
    the value and what was expected. Until then the memory used is bounded by the size of `data` and the groups of
    `spec`.
    """
    if len(data) > limit:
        raise CodecError(f"payload of {len(data)} bytes; the limit is {limit}")
    reader = ByteReader(bytes(data))
    form, set_count, block_count = _read_header(reader, spec, known)
    set_table = read_table(reader, "id set", "group", set_count, list(spec.groups))
    block_table = read_table(reader, "block", "parameter", block_count, list(spec.params))
    _check_values_are_there(reader, block_table, form)
    mask = known if isinstance(known, Mask) else None
    sets = (
        ActiveNeuronSets(known.active, known.keys)
        if isinstance(known, NeuronSet)
        else read_sets(reader, set_table, spec)
    )
    indices = [_read_index(reader, entry, spec, sets, mask) for entry in block_table]
    _check_sets_are_read(set_table, block_table, spec)
    reader.skip_padding()
    shapes = [block_shape(spec.params[entry.name].shape, index) for entry, index in zip(block_table, indices)]
    parts = read_values(form, reader, [(entry.name, entry.count) for entry in block_table])
    return Update(
        {
            entry.name: Block(spec.params[entry.name].shape, index, part.reshape(shape))
            for entry, index, shape, part in zip(block_table, indices, shapes, parts)
        }
    )


def decode_exchanged(data: bytes, spec: ModelSpec, *, limit: int, known: NeuronSet | Mask | None = None) -> Update:
    """Decode a payload of a round into its update, as `decode` does.

    Raises CodecError also for a block of a frozen parameter, which comes with the initial model alone.
    """
    update = decode(data, spec, limit=limit, known=known)
    check_exchanged(update, spec)
    return update


def check_exchanged(update: Update, spec: ModelSpec) -> None:
    """Raise CodecError for a block of a frozen parameter. Blocks of other models are not looked for."""
    for name in update.blocks:
        if name in spec.params and spec.params[name].kind == "frozen":
            raise CodecError(f"block {name!r} of a frozen parameter; expected a parameter that rounds exchange")


def _read_header(reader: ByteReader, spec: ModelSpec, known: NeuronSet | Mask | None) -> tuple[Format, int, int]:
    """Return the format of the values, the number of id sets and the number of blocks."""
    magic, version, flags, set_count, fingerprint, block_count = HEADER.unpack(reader.take("header", HEADER.size))
    if magic != MAGIC:
        raise CodecError(f"magic {magic!r}; expected {MAGIC!r}")
    if version != VERSION:
        raise CodecError(f"version {version}; expected {VERSION}")
    if flags & ~ALL_FLAGS:
        raise CodecError(f"flags {flags:#04x}; expected no bits but {ALL_FLAGS:#04x}")
    if fingerprint != spec.fingerprint:
        raise CodecError(f"payload of model {fingerprint.hex()}; expected {spec.fingerprint.hex()}")
    _read_selection(reader, flags & (KNOWN | KNOWN_MASK), known)
    if set_count > (0 if known is not None else len(spec.groups)):
        raise CodecError(f"{set_count} id sets; expected at most {0 if known is not None else len(spec.groups)}")
    if block_count > len(spec.params):
        raise CodecError(f"{block_count} blocks; expected at most {len(spec.params)}")
    return format_of(flags), set_count, block_count


def _read_selection(reader: ByteReader, flags: int, known: NeuronSet | Mask | None) -> None:
    if known is None:
        if flags:
            raise CodecError("payload without neuron ids; expected a payload that carries them")
        return
    flag, what = (KNOWN_MASK, "mask") if isinstance(known, Mask) else (KNOWN, "neuron set")
    expected = known.hash()
    if not flags:
        raise CodecError(f"payload with its own ids; expected only the hash {expected.hex()} of the {what}")
    if flags != flag:
        raise CodecError(
            f"flags {flags:#04x} for ids or masks that the receiver holds; expected {flag:#04x}, the {what}"
        )
    found = bytes(reader.take(f"hash of the {what}", HASH_BYTES))
    if found != expected:
        raise CodecError(f"{what} {found.hex()}; expected {expected.hex()}")


def _check_values_are_there(reader: ByteReader, table: list[Entry], form: Format) -> None:
    """Check that the payload has all announced values, before its ids expand. They may take more memory than it."""
    expected = value_bytes(form, [entry.count for entry in table])
    left = len(reader.data) - reader.at
    if left < expected:
        raise CodecError(f"index and values: {left} bytes left; expected at least {expected}")


def _read_index(
    reader: ByteReader, entry: Entry, spec: ModelSpec, sets: ActiveNeuronSets, mask: Mask | None
) -> Axes | Flat | None:
    """Return the index of a block, after a check that it gives as many values as the entry of the block says."""
    param, where = spec.params[entry.name], f"block {entry.name!r}"
    index: Axes | Flat | None = slice_index(spec, entry.name)
    if entry.coding == AXES:
        index = sets.axes(param, spec)
        if index is None:
            raise CodecError(f"{where} in coding axes; expected coding dense, as all its groups are whole")
    elif FLAT <= entry.coding < FLAT + Coding.SEED or entry.coding == FLAT_CODED:
        found = _read_flat(reader, where, entry, math.prod(param.shape), mask)
        if found == index:
            raise CodecError(f"{where} in coding {entry.coding}; expected coding dense, as it is the trained slice")
        return found
    elif entry.coding == MASKED and mask is not None:
        index = flat_index(mask, entry.name)
        if index is None:
            raise CodecError(f"{where} in coding masked; expected coding dense, as the mask leaves it whole")
    elif entry.coding != DENSE:
        also = f" or {FLAT_CODED}" if mask is None else f", {MASKED} or {FLAT_CODED}"
        raise CodecError(f"{where} in coding {entry.coding}; expected 0 to {FLAT + Coding.SEED - 1}{also}")
    expected = math.prod(block_shape(param.shape, index))
    if entry.count != expected:
        raise CodecError(f"{where} of {entry.count} values; expected {expected}")
    return index


def _read_flat(reader: ByteReader, where: str, entry: Entry, n: int, mask: Mask | None) -> Flat:
    if entry.count > n:
        raise CodecError(f"{where} of {entry.count} values; expected at most {n}")
    coding = Coding.CODED if entry.coding == FLAT_CODED else entry.coding - FLAT
    found = Flat(read_flat(reader, where, coding, n, entry.count), n)
    if mask is not None and found == flat_index(mask, entry.name):
        raise CodecError(f"{where} in coding {entry.coding}; expected {MASKED}, as the mask gives its coordinates")
    return found


def _check_sets_are_read(set_table: list[Entry], block_table: list[Entry], spec: ModelSpec) -> None:
    params = (spec.params[entry.name] for entry in block_table if entry.coding == AXES)
    read = {group for param in params for axis in (param.rows, param.cols) for group in groups_of(axis)}
    for entry in set_table:
        if entry.name not in read:
            raise CodecError(f"ids of group {entry.name!r}, which no block reads; expected ids of other groups only")
