"""The field of integers modulo 2^256 + 297, and the 33 bytes of an element. shamir.py shares secrets over it.

The number is the smallest prime above 2^256, so that every secret of 32 bytes is an element.
"""

from __future__ import annotations

PRIME = 2**256 + 297
ELEMENT_BYTES = 33
WIDE_BYTES = 48  # random bytes for an element. Their remainder modulo PRIME is uniform up to 2^-127


def element_to_bytes(element: int) -> bytes:
    """Return the 33 little-endian bytes of an element."""
    return element.to_bytes(ELEMENT_BYTES, "little")


def element_from_bytes(data: bytes) -> int:
    """Return the element that 33 little-endian bytes stand for. Raises ValueError for other bytes."""
    element = int.from_bytes(data, "little")
    if len(data) != ELEMENT_BYTES or element >= PRIME:
        raise ValueError(f"a field element of {len(data)} bytes; expected {ELEMENT_BYTES} bytes, below 2^256 + 297")
    return element


def elements_from_random(random: bytes) -> list[int]:
    """Return an element for each 48 random bytes."""
    parts = range(0, len(random), WIDE_BYTES)
    return [int.from_bytes(random[start : start + WIDE_BYTES], "little") % PRIME for start in parts]
