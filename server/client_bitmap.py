"""A set of clients as few bytes, for a row of the log: a compressed bitmap, bit c % 8 of byte c // 8 for client c."""

from __future__ import annotations

import zlib


def pack(clients: frozenset[int]) -> bytes:
    """Pack a set of clients. It takes about a byte for eight clients, and far fewer where neighbours are alike."""
    bits = bytearray(max(clients, default=-1) // 8 + 1)
    for client in clients:
        bits[client // 8] |= 1 << client % 8
    return zlib.compress(bytes(bits), 9)


def unpack(data: bytes) -> frozenset[int]:
    """Unpack what `pack` has packed. Raises ValueError for other bytes."""
    try:
        bits = zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"a set of candidates that cannot be read ({error})") from None
    return frozenset(8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1)
