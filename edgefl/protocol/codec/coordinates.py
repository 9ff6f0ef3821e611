"""Coordinates of a parameter as bytes, for masks and flat blocks: a bitmap, a list or a code, whichever is smallest.

The coding follows from the number of coordinates and the size of the parameter. The size of a code counts as
entropy_code.expected_bytes estimates it. Ids of neurons, which may be a seed and never a code, are in ids.py.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgefl.errors import CodecError
from edgefl.protocol.codec.entropy_code import Bits, decode_bits, encode_bits, expected_bytes
from edgefl.protocol.codec.id_tables import ByteReader
from edgefl.protocol.codec.ids import Coding, Uint32Array, decode_ids, encode_ids, plain, size_of


def smallest(n: int, k: int) -> tuple[Coding, int]:
    """Return the smallest coding of k of n coordinates, and its size in bytes.

    The candidates are bitmap, list and code. If two are equal, the first one wins. The size of a code is an estimate.
    """
    coding, size = plain(n, k)
    expected = expected_bytes(n, k)
    return (Coding.CODED, expected) if expected < size else (coding, size)


def encode_coordinates(bits: Bits, ones: int) -> tuple[Coding, bytes]:
    """Return the smallest coding of `bits`, of which `ones` are ones, and the encoded bytes."""
    coding, _ = smallest(bits.size, ones)
    if coding is Coding.CODED:
        return coding, encode_bits(bits, ones)
    if coding is Coding.BITMAP:
        return coding, np.packbits(bits, bitorder="little").tobytes()
    return coding, np.flatnonzero(bits).astype("<u2" if coding is Coding.LIST16 else "<u4").tobytes()


def encode_flat(where: str, ids: Uint32Array, n: int) -> tuple[Coding, bytes]:
    """Return the smallest coding of coordinates given by their `ids`, below `n`, and the encoded bytes."""
    if smallest(n, ids.size)[0] is not Coding.CODED:
        return encode_ids(where, ids, n)
    bits = np.zeros(n, np.bool_)
    bits[ids] = True
    return encode_coordinates(bits, ids.size)


def read_coordinates(reader: ByteReader, where: str, coding: int, shape: tuple[int, ...], ones: int) -> Bits:
    """Read the next coordinates as bits of the given shape.

    Raises  CodecError that begins with `where` or names it: the bytes do not hold `ones` ones in this coding, or
            another coding would be smaller, or too few bytes are left. Too few bytes are noticed before any allocation.
    """
    n = prod(shape)
    if _checked(where, coding, n, ones) == Coding.CODED:
        return _read_code(reader, where, shape, ones)
    data = reader.take(f"coordinates of the {where}", size_of(where, coding, n, ones, seed_allowed=False))
    if coding == Coding.BITMAP:
        return _from_bitmap(where, data, shape, ones)
    bits = np.zeros(shape, np.bool_)
    bits.reshape(-1)[decode_ids(where, coding, data, n, ones)[0]] = True
    return bits


def read_flat(reader: ByteReader, where: str, coding: int, n: int, count: int) -> Uint32Array:
    """Read the ids of the next `count` coordinates, below `n`. Raises CodecError as `read_coordinates` does."""
    if _checked(where, coding, n, count) == Coding.CODED:
        return np.flatnonzero(_read_code(reader, where, (n,), count)).astype(np.uint32)
    data = reader.take(f"coordinates of {where}", size_of(where, coding, n, count, seed_allowed=False))
    return decode_ids(where, coding, data, n, count)[0]


def _checked(where: str, coding: int, n: int, k: int) -> int:
    expected, size = smallest(n, k)
    if coding != expected and Coding.CODED in (coding, expected):
        written = f"as {Coding(coding).name}" if coding in list(Coding) else f"in id coding {coding}"
        raise CodecError(f"{where}: {k} of {n} ids {written}; expected {expected.name}, {_about(expected, size)}")
    return coding


def _about(coding: Coding, size: int) -> str:
    return f"about {size} bytes" if coding is Coding.CODED else f"{size} bytes"


def _read_code(reader: ByteReader, where: str, shape: tuple[int, ...], ones: int) -> Bits:
    bits, size = decode_bits(where, memoryview(reader.data)[reader.at :], shape, ones)
    reader.at += size
    return bits


def _from_bitmap(where: str, data: memoryview, shape: tuple[int, ...], ones: int) -> Bits:
    n = prod(shape)
    if n % 8 and data[-1] >> n % 8:
        first = n + (data[-1] >> n % 8 & -(data[-1] >> n % 8)).bit_length() - 1
        raise CodecError(f"{where}: padding bit {first} of the bitmap is 1; expected 0")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=n, bitorder="little").view(np.bool_)
    found = int(np.count_nonzero(bits))
    if found != ones:
        raise CodecError(f"{where}: bitmap with {found} ids; expected {ones}")
    return bits.reshape(shape)
