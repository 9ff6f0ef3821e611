"""Sets of ids as bytes: a bitmap, a list or a seed, whichever is smallest. The docstring of the package has the table.

Codes are only for coordinates of parameters, and are in entropy_code.py and coordinates.py.

A set is k increasing ids out of range(n). Both sides know n from the specification and k from the payload's tables.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from edgefl.errors import CodecError
from edgefl.rng import sample_ids

Uint32Array = npt.NDArray[np.uint32]
SEED_BYTES = 8
LARGEST_SHORT = 65535  # a list has 4 bytes an id if n is larger than this


class Coding(IntEnum):
    """The number of an id coding, as it is written in a table."""

    BITMAP = 0
    LIST16 = 1
    LIST32 = 2
    SEED = 3
    CODED = 4


def plain(n: int, k: int) -> tuple[Coding, int]:
    """Return the smaller one of bitmap and list, or the bitmap if both are equal, and its size in bytes."""
    coding, width = (Coding.LIST16, 2) if n <= LARGEST_SHORT else (Coding.LIST32, 4)
    bitmap_bytes = (n + 7) // 8
    return (Coding.BITMAP, bitmap_bytes) if bitmap_bytes <= width * k else (coding, width * k)


def encode_ids(where: str, ids: npt.NDArray[np.integer], n: int, key: int | None = None) -> tuple[Coding, bytes]:
    """Return the smallest coding of sorted ids, and the encoded bytes.

    A seed is chosen if `key` is given and the seed is smaller than bitmap and list.
    Raises  CodecError that begins with `where`, if `key` stands for other ids.
    """
    coding, size = plain(n, ids.size)
    if key is not None and size > SEED_BYTES:
        if not np.array_equal(sample_ids(key, n, ids.size), ids):
            raise CodecError(f"{where}: key {key:#018x} draws other ids; expected the key that drew these ids")
        return Coding.SEED, key.to_bytes(SEED_BYTES, "little")
    if coding is Coding.BITMAP:
        bits = np.zeros(n, np.bool_)
        bits[ids] = True
        return coding, np.packbits(bits, bitorder="little").tobytes()
    return coding, ids.astype("<u2" if coding is Coding.LIST16 else "<u4").tobytes()


def size_of(where: str, coding: int, n: int, k: int, *, seed_allowed: bool) -> int:
    """Return the size in bytes of a set in this coding. Raises CodecError if `encode_ids` would choose another one."""
    smallest, size = plain(n, k)
    if coding == Coding.SEED and seed_allowed and size > SEED_BYTES:
        return SEED_BYTES
    if coding != smallest:
        written = f"as {Coding(coding).name}" if coding in list(Coding) else f"in id coding {coding}"
        raise CodecError(f"{where}: {k} of {n} ids {written}; expected {smallest.name}, {size} bytes")
    return size


def decode_ids(where: str, coding: int, data: memoryview, n: int, k: int) -> tuple[Uint32Array, int | None]:
    """Return the ids in `data`, and the key if the ids are a seed. `data` has the size that `size_of` gives.

    Raises  CodecError that begins with `where`, if the bytes are not k increasing ids below n.
    """
    if coding == Coding.SEED:
        key = int.from_bytes(data, "little")
        return sample_ids(key, n, k).astype(np.uint32), key
    if coding == Coding.BITMAP:
        return _from_bitmap(where, data, n, k), None
    ids = np.frombuffer(data, "<u2" if coding == Coding.LIST16 else "<u4").astype(np.uint32)
    falls = np.flatnonzero(ids[1:] <= ids[:-1])
    if falls.size:
        raise CodecError(f"{where}: id {ids[falls[0] + 1]} after {ids[falls[0]]}; expected increasing ids")
    if k and ids[-1] >= n:
        raise CodecError(f"{where}: id {ids[-1]}; expected ids below {n}")
    return ids, None


def _from_bitmap(where: str, data: memoryview, n: int, k: int) -> Uint32Array:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[n:].any():
        raise CodecError(f"{where}: padding bit {n + int(bits[n:].argmax())} of the bitmap is 1; expected 0")
    ids = np.flatnonzero(bits).astype(np.uint32)
    if ids.size != k:
        raise CodecError(f"{where}: bitmap with {ids.size} ids; expected {k}")
    return ids
