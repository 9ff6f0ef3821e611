"""Mask <-> bytes: coordinates without values.

    header   4  magic "EFLM"
             1  version, 2
             1  0: a whole mask. 1: the difference to a mask that the receiver holds
             2  number of rows, M
            16  fingerprint of the model's specification
           [ 8  hash of the mask that the receiver holds (Mask.hash), in a difference ]
           8 M  rows, by increasing parameter:  2 parameter, 2 id coding (0, 1, 2 or 4), 4 number of ones
    index       bytes of the coordinates, in the order of their table

All numbers are little-endian and unsigned. Parameters and id codings are as in codec/__init__.py. In a whole mask, a
parameter has no row if and only if the mask has all of its coordinates. In a difference, a row lists the coordinates
that one of the two masks has and the other has not. A parameter without a row is equal in both masks, so 32 bytes say
that no coordinate has changed. The encoder writes a difference where it expects the difference to be shorter. It counts
8 bytes for each row, the bytes of the coordinates (a code as entropy_code.expected_bytes estimates it), and 8 more for
a difference. A mask has one form only, and so has the difference to another mask.
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
KIND_AT = 5  # offset of the kind in the header, in bytes

Counts = Mapping[str, tuple[int, int]]  # by parameter: number of coordinates, number of ones


def encode_mask(mask: Mask, spec: ModelSpec, *, known: Mask | None = None) -> bytes:
    """Encode a mask.

    known   a mask that the receiver holds. The difference to it is written where the difference is shorter
    Raises  CodecError if a mask is of another model, or the model has more parameters than a header can count (65535).
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
    """Decode the mask that `encode_mask` wrote.

    known   the mask that is held here, to which a difference must refer. A whole mask does not need it
    Raises  CodecError if `data` is not a mask of this model, or is a difference to another mask than `known`. The
            memory used is bounded by the size of `data` and a few bytes per scalar of `spec`.
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
        raise CodecError(
            f"{len(reader.data) - reader.at} trailing bytes; expected the end of the payload after the coordinates"
        )
    if held is None:
        return _locked(bits)
    changed = {name: _flipped(held, name, found) for name, found in bits.items()}
    mask = _locked({name: changed.get(name, held.bits.get(name)) for name in spec.params})
    if not _is_shorter(_counts(bits), _counts(mask.bits)):
        raise CodecError(f"difference from mask {held.hash().hex()}, which is not shorter; expected the whole mask")
    return mask


def _read_header(reader: ByteReader, spec: ModelSpec, known: Mask | None) -> tuple[int, Mask | None]:
    """Return the number of rows, and the mask from which they differ, or None if they are a whole mask."""
    magic, version, kind, count, fingerprint = HEADER.unpack(reader.take("header", HEADER.size))
    if magic != MAGIC:
        raise CodecError(f"magic {magic!r}; expected {MAGIC!r}")
    if version != VERSION or kind not in (WHOLE, DIFFERENCE):
        raise CodecError(
            f"version {version} and kind {kind}; expected version {VERSION} and kind {WHOLE} or {DIFFERENCE}"
        )
    if fingerprint != spec.fingerprint:
        raise CodecError(f"mask of model {fingerprint.hex()}; expected {spec.fingerprint.hex()}")
    if count > len(spec.params):
        raise CodecError(f"mask of {count} parameters; expected at most {len(spec.params)}")
    if kind == WHOLE:
        return count, None
    found = bytes(reader.take("hash of the mask that is held", HASH_BYTES))
    if known is None:
        raise CodecError(f"difference from mask {found.hex()}; expected the whole mask, as the receiver holds no mask")
    if found != known.hash():
        raise CodecError(
            f"difference from mask {found.hex()}; expected mask {known.hash().hex()}, which the receiver holds"
        )
    return count, known


def _check_count(entry: Entry, n: int, *, is_difference: bool) -> None:
    where = f"mask of {entry.name!r}"
    if is_difference and not 0 < entry.count <= n:
        raise CodecError(f"{where}: {entry.count} of {n} coordinates differ; expected at least one, or no row")
    if not is_difference and entry.count >= n:
        raise CodecError(
            f"{where}: {entry.count} of {n} coordinates; expected fewer than {n}, or no row for a whole parameter"
        )


def _check(mask: Mask, spec: ModelSpec) -> None:
    if len(spec.params) >= 2**16:
        raise CodecError(f"mask of a model of {len(spec.params)} parameters; expected at most 65535")
    for name, bits in mask.bits.items():
        if name not in spec.params or bits.shape != spec.params[name].shape:
            raise CodecError(f"mask of {name!r} of shape {bits.shape}; expected a parameter of the model")


def _difference(mask: Mask, known: Mask, spec: ModelSpec) -> dict[str, Bits]:
    """Return, for each parameter that differs, the coordinates that one of two masks has and the other has not."""
    names = [name for name in spec.params if name in mask.bits or name in known.bits]
    found = {name: _flipped(known, name, mask.bits.get(name)) for name in names}
    return {name: bits for name, bits in found.items() if bits.any()}


def _flipped(mask: Mask, name: str, bits: Bits | None) -> Bits:
    """Return the bits of a parameter in a mask, inverted at the ones of `bits`, or all inverted if `bits` is None."""
    old = mask.bits.get(name)
    if bits is None:
        bits = np.ones_like(mask.bits[name])
    return ~bits if old is None else old ^ bits


def _locked(bits: Mapping[str, Bits | None]) -> Mask:
    """Return a read-only mask of these bits, which have no other owner. Bits that are None or all set are left out."""
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
    """Return whether any bytes begin like a mask."""
    return data[: len(MAGIC)] == MAGIC


def is_difference(data: bytes) -> bool:
    """Return whether any bytes begin like the difference to a mask that the receiver holds."""
    return is_mask(data) and data[KIND_AT : KIND_AT + 1] == bytes([DIFFERENCE])


def is_at_mask(data: bytes) -> bool:
    """Return whether any bytes begin like values at a mask that the receiver knows."""
    is_update = data[: len(codec_format.MAGIC)] == codec_format.MAGIC and len(data) > FLAGS_AT
    return is_update and bool(data[FLAGS_AT] & KNOWN_MASK)


def header_bytes(data: bytes) -> int:
    """Return the number of bytes of an encoded mask that are not coordinates."""
    return HEADER.size + HASH_BYTES * is_difference(data) + ENTRY.size * HEADER.unpack_from(data)[3]


def known_hash(data: bytes) -> bytes | None:
    """Return the hash of the mask on which any bytes depend: values at the mask, or a difference to it.

    If the bytes depend on no mask, the result is None. If the bytes are cut off, the hash is too short.
    """
    if is_at_mask(data):
        return data[codec_format.HEADER.size :][:HASH_BYTES]
    return data[HEADER.size :][:HASH_BYTES] if is_difference(data) else None
