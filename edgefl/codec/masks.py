"""Mask <-> bytes: coordinates without values.

    header   4  magic "EFLM"
             1  version, 1
             1  zero
             2  number of parameters, M
            16  fingerprint of the model's specification
           8 M  rows, by increasing parameter:  2 parameter, 2 id coding (0, 1 or 2), 4 number of ones
    index       bytes of the coordinates, in the order of their table

All numbers are little-endian and unsigned; parameters and id codings are those of codec/__init__.py. A parameter
without a row is whole, and one that is whole has no row. A mask has one form only.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from edgefl.codec import format as codec_format
from edgefl.codec.format import ENTRY, FLAGS_AT, HASH_BYTES, KNOWN_MASK
from edgefl.codec.ids import decode_ids, encode_ids, size_of
from edgefl.codec.sets import Entry, Reader, read_table
from edgefl.errors import CodecError
from edgefl.neurons.mask import Bits, Mask

if TYPE_CHECKING:
    from edgefl.neurons.spec import ModelSpec

MAGIC, VERSION = b"EFLM", 1
HEADER = struct.Struct("<4sBBH16s")


def encode_mask(mask: Mask, spec: ModelSpec) -> bytes:
    """The bytes of a mask. Raises CodecError if it is of another model, or of more parameters than a header counts."""
    if len(mask.bits) >= 2**16:
        raise CodecError(f"mask of {len(mask.bits)} parameters; expected at most 65535")
    for name, bits in mask.bits.items():
        if name not in spec.params or bits.shape != spec.params[name].shape:
            raise CodecError(f"mask of {name!r} of shape {bits.shape}; expected a parameter of the model")
    table, index = [], []
    for number, name in enumerate(spec.params):
        if name in mask.bits:
            coding, data = encode_ids(f"mask of {name!r}", mask.ids[name], mask.bits[name].size)
            table.append(ENTRY.pack(number, coding, mask.ids[name].size))
            index.append(data)
    return b"".join([HEADER.pack(MAGIC, VERSION, 0, len(table), spec.fingerprint), *table, *index])


def decode_mask(data: bytes, spec: ModelSpec) -> Mask:
    """The mask that `encode_mask` wrote.

    Raises  CodecError if `data` is anything else; memory used is bounded by its size and a byte per scalar of `spec`.
    """
    reader = Reader(bytes(data))
    magic, version, zero, count, fingerprint = HEADER.unpack(reader.take("header", HEADER.size))
    if magic != MAGIC:
        raise CodecError(f"magic {magic!r}; expected {MAGIC!r}")
    if (version, zero) != (VERSION, 0):
        raise CodecError(f"version {version} and then {zero}; expected {VERSION} and 0")
    if fingerprint != spec.fingerprint:
        raise CodecError(f"mask of model {fingerprint.hex()}; expected {spec.fingerprint.hex()}")
    if count > len(spec.params):
        raise CodecError(f"mask of {count} parameters; expected at most {len(spec.params)}")
    table = read_table(reader, "mask", "parameter", count, list(spec.params))
    bits = {entry.name: _read_bits(reader, entry, spec) for entry in table}
    if reader.at != len(reader.data):
        raise CodecError(f"{len(reader.data) - reader.at} trailing bytes; expected none after the coordinates")
    return Mask.of(spec, bits)


def is_mask(data: bytes) -> bool:
    """Whether these bytes, which may be anything, begin as those of a mask do."""
    return data[: len(MAGIC)] == MAGIC


def is_at_mask(data: bytes) -> bool:
    """Whether these bytes, which may be anything, begin as those of values at a mask that their receiver knows."""
    is_update = data[: len(codec_format.MAGIC)] == codec_format.MAGIC and len(data) > FLAGS_AT
    return is_update and bool(data[FLAGS_AT] & KNOWN_MASK)


def header_bytes(data: bytes) -> int:
    """Of the bytes of a mask, those that are no coordinates."""
    return HEADER.size + ENTRY.size * HEADER.unpack_from(data)[3]


def known_hash(data: bytes) -> bytes:
    """Of values at a mask that their receiver knows, the hash of that mask; too short if the bytes are cut off."""
    return data[codec_format.HEADER.size :][:HASH_BYTES]


def _read_bits(reader: Reader, entry: Entry, spec: ModelSpec) -> Bits:
    shape, where = spec.params[entry.name].shape, f"mask of {entry.name!r}"
    n, k = math.prod(shape), entry.count
    if k >= n:
        raise CodecError(f"{where}: {k} of {n} coordinates; expected fewer, or no row for a whole parameter")
    data = reader.take(f"coordinates of the {where}", size_of(where, entry.coding, n, k, seed_allowed=False))
    bits = np.zeros(shape, np.bool_)
    bits.reshape(-1)[decode_ids(where, entry.coding, data, n, k)[0]] = True
    return bits
