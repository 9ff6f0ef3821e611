"""Mask <-> bytes: coordinates without values.

    header   4  magic "EFLM"
             1  version, 2
             1  0: the mask; or 1: what differs from a mask that the receiver holds
             2  number of rows, M
            16  fingerprint of the model's specification
           [ 8  hash of the mask that the receiver holds (Mask.hash), in a difference ]
           8 M  rows, by increasing parameter:  2 parameter, 2 id coding (0, 1, 2 or 4), 4 number of ones
    index       bytes of the coordinates, in the order of their table

All numbers are little-endian and unsigned; parameters and id codings are those of codec/__init__.py. In a mask a
parameter without a row is whole, and one that is whole has no row. In a difference the coordinates are those that one
of the two masks has and the other has not, and a parameter without a row is the same in both, so that 32 bytes say that
nothing has changed. A difference is written where it is expected to be shorter: rows count 8 bytes and their
coordinates, codes as coded.expected_bytes tells, and a difference 8 more. A mask has one form only, and so has the
difference to another.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from edgefl.errors import CodecError
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.protocol.codec import format as codec_format
from edgefl.protocol.codec.coordinates import encode_coordinates, read_coordinates, smallest
from edgefl.protocol.codec.format import ENTRY, FLAGS_AT, HASH_BYTES, KNOWN_MASK
from edgefl.protocol.codec.id_tables import ByteReader, Entry, read_table

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import ModelSpec

MAGIC, VERSION = b"EFLM", 2
WHOLE, DIFFERENCE = 0, 1
HEADER = struct.Struct("<4sBBH16s")
KIND_AT = 5  # the byte of the header with the kind

Counts = Mapping[str, tuple[int, int]]  # by parameter: coordinates, and how many of them are ones


def encode_mask(mask: Mask, spec: ModelSpec, *, known: Mask | None = None) -> bytes:
    """The bytes of a mask.

    known   a mask that the receiver is known to hold: what differs from it is written where that is shorter
    Raises  CodecError if a mask is of another model, or of more parameters than a header counts.
    """
    _check(mask, spec)
    if known is None:
        return _write(mask.bits, _counts(mask.bits), spec)
    _check(known, spec)
    whole, difference = _counts(mask.bits), _difference(mask, known, spec)
    differing = _counts(difference)
    if _is_shorter(differing, whole):
        return _write(difference, differing, spec, known.hash())
    return _write(mask.bits, whole, spec)


def decode_mask(data: bytes, spec: ModelSpec, *, known: Mask | None = None) -> Mask:
    """The mask that `encode_mask` wrote.

    known   the mask that is held here; a mask that is no difference to one may come whatever it is
    Raises  CodecError if `data` is anything else, or the difference to a mask that is not `known`; memory used is
            bounded by its size and a few bytes per scalar of `spec`.
    """
    reader = ByteReader(bytes(data))
    count, held = _read_header(reader, spec, known)
    table = read_table(reader, "mask", "parameter", count, list(spec.params))
    for entry in table:
        _check_count(entry, math.prod(spec.params[entry.name].shape), is_difference=held is not None)
    bits = {
        entry.name: read_coordinates(
            reader, f"mask of {entry.name!r}", entry.coding, spec.params[entry.name].shape, entry.count
        )
        for entry in table
    }
    if reader.at != len(reader.data):
        raise CodecError(f"{len(reader.data) - reader.at} trailing bytes; expected none after the coordinates")
    if held is None:
        return _locked(bits)
    changed = {name: _flipped(held, name, found) for name, found in bits.items()}
    mask = _locked({name: changed.get(name, held.bits.get(name)) for name in spec.params})
    if not _is_shorter(_counts(bits), _counts(mask.bits)):
        raise CodecError(f"difference to mask {held.hash().hex()}, which is not shorter; expected the mask")
    return mask


def _read_header(reader: ByteReader, spec: ModelSpec, known: Mask | None) -> tuple[int, Mask | None]:
    """The number of rows, and the mask that they differ from."""
    magic, version, kind, count, fingerprint = HEADER.unpack(reader.take("header", HEADER.size))
    if magic != MAGIC:
        raise CodecError(f"magic {magic!r}; expected {MAGIC!r}")
    if version != VERSION or kind not in (WHOLE, DIFFERENCE):
        raise CodecError(f"version {version} and then {kind}; expected {VERSION} and {WHOLE} or {DIFFERENCE}")
    if fingerprint != spec.fingerprint:
        raise CodecError(f"mask of model {fingerprint.hex()}; expected {spec.fingerprint.hex()}")
    if count > len(spec.params):
        raise CodecError(f"mask of {count} parameters; expected at most {len(spec.params)}")
    if kind == WHOLE:
        return count, None
    found = bytes(reader.take("hash of the mask that is held", HASH_BYTES))
    if known is None:
        raise CodecError(f"difference to mask {found.hex()}; expected the mask itself, none is held here")
    if found != known.hash():
        raise CodecError(f"difference to mask {found.hex()}; expected one to {known.hash().hex()}, which is held here")
    return count, known


def _check_count(entry: Entry, n: int, *, is_difference: bool) -> None:
    where = f"mask of {entry.name!r}"
    if is_difference and not 0 < entry.count <= n:
        raise CodecError(f"{where}: {entry.count} of {n} coordinates differ; expected some, or no row for none")
    if not is_difference and entry.count >= n:
        raise CodecError(f"{where}: {entry.count} of {n} coordinates; expected fewer, or no row for a whole parameter")


def _check(mask: Mask, spec: ModelSpec) -> None:
    if len(spec.params) >= 2**16:
        raise CodecError(f"mask of a model of {len(spec.params)} parameters; expected at most 65535")
    for name, bits in mask.bits.items():
        if name not in spec.params or bits.shape != spec.params[name].shape:
            raise CodecError(f"mask of {name!r} of shape {bits.shape}; expected a parameter of the model")


def _difference(mask: Mask, known: Mask, spec: ModelSpec) -> dict[str, Bits]:
    """The coordinates that one of two masks has and the other has not, by parameter in which there are any."""
    names = [name for name in spec.params if name in mask.bits or name in known.bits]
    found = {name: _flipped(known, name, mask.bits.get(name)) for name in names}
    return {name: bits for name, bits in found.items() if bits.any()}


def _flipped(mask: Mask, name: str, bits: Bits | None) -> Bits:
    """A parameter's bits in a mask, of which those in `bits` are the other way round; None: all of them."""
    old = mask.bits.get(name)
    if bits is None:
        bits = np.ones_like(mask.bits[name])
    return ~bits if old is None else old ^ bits


def _locked(bits: Mapping[str, Bits | None]) -> Mask:
    """The mask of bits that nobody else has, in the order of the specification, without those that are none or all."""
    found = {name: each for name, each in bits.items() if each is not None and not each.all()}
    for each in found.values():
        each.flags.writeable = False
    return Mask(found)


def _counts(bits: Mapping[str, Bits]) -> Counts:
    return {name: (each.size, int(np.count_nonzero(each))) for name, each in bits.items()}


def _is_shorter(difference: Counts, whole: Counts) -> bool:
    return HASH_BYTES + _expected_bytes(difference) < _expected_bytes(whole)


def _expected_bytes(counts: Counts) -> int:
    return sum(ENTRY.size + smallest(n, ones)[1] for n, ones in counts.values())


def _write(bits: Mapping[str, Bits], counts: Counts, spec: ModelSpec, held: bytes = b"") -> bytes:
    table, index = [], []
    for number, name in enumerate(spec.params):
        if name in bits:
            ones = counts[name][1]
            coding, data = encode_coordinates(bits[name], ones)
            table.append(ENTRY.pack(number, coding, ones))
            index.append(data)
    kind = DIFFERENCE if held else WHOLE
    return b"".join([HEADER.pack(MAGIC, VERSION, kind, len(table), spec.fingerprint), held, *table, *index])


def is_mask(data: bytes) -> bool:
    """Whether these bytes, which may be anything, begin as those of a mask do."""
    return data[: len(MAGIC)] == MAGIC


def is_difference(data: bytes) -> bool:
    """Whether these bytes, which may be anything, begin as those of a mask that differs from one its receiver holds."""
    return is_mask(data) and data[KIND_AT : KIND_AT + 1] == bytes([DIFFERENCE])


def is_at_mask(data: bytes) -> bool:
    """Whether these bytes, which may be anything, begin as those of values at a mask that their receiver knows."""
    is_update = data[: len(codec_format.MAGIC)] == codec_format.MAGIC and len(data) > FLAGS_AT
    return is_update and bool(data[FLAGS_AT] & KNOWN_MASK)


def header_bytes(data: bytes) -> int:
    """Of the bytes of a mask, those that are no coordinates."""
    return HEADER.size + HASH_BYTES * is_difference(data) + ENTRY.size * HEADER.unpack_from(data)[3]


def known_hash(data: bytes) -> bytes | None:
    """Of bytes that may be anything the hash of the mask that they count on: of values at one, or of a difference to
    one. None if they count on none; too short if they are cut off.
    """
    if is_at_mask(data):
        return data[codec_format.HEADER.size :][:HASH_BYTES]
    return data[HEADER.size :][:HASH_BYTES] if is_difference(data) else None
