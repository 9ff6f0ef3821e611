"""A set of clients as few bytes, for a row of the log: a compressed bitmap, bit c % 8 of byte c // 8 for client c."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from edgefl.methods.client_set import ClientSet


def pack(clients: AbstractSet[int]) -> bytes:
    """Pack a set of clients. It takes about a byte for eight clients, and far fewer where neighbours are alike."""
    ids = clients.ids() if isinstance(clients, ClientSet) else np.fromiter(clients, np.int64, len(clients))
    bits = np.zeros(ids.max(initial=-1) + 1, np.bool_)
    bits[ids] = True
    return zlib.compress(np.packbits(bits, bitorder="little").tobytes(), 9)


def unpack(data: bytes) -> frozenset[int]:
    """Unpack what `pack` has packed. Raises ValueError for other bytes."""
    try:
        bits = zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"a set of candidates that cannot be read ({error})") from None
    return frozenset(np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist())


class PackedSets(Mapping[int, frozenset[int]]):
    """Sets of clients by round. Each is unpacked when it is asked for, as all of a long run would fill the memory."""

    def __init__(self, packed: Mapping[int, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, round: int) -> frozenset[int]:
        return unpack(self._packed[round])

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
