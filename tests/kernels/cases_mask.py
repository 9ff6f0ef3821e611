"""Masks of every density to bytes and back. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefl.kernels import reference

from .cases import Args, Array, Case, Rng, blank_bytes

SIZES = (0, 1, 7, 8, 9, 31, 32, 33, 64, 65, 257, 1000)
DENSITIES = (0.0, 0.002, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0)


def cases() -> Iterator[Case]:
    for size in SIZES:
        for density in DENSITIES:
            for op in ("encode_mask", "decode_mask"):
                yield Case(op, f"{size}-{density}", lambda rng, n=size, d=density, o=op: call(scattered(rng, n, d), o))
    for op in ("encode_mask", "decode_mask"):
        for density in (0.001, 0.1, 0.5):
            yield Case(op, f"in a row-{density}", lambda rng, d=density, o=op: call(in_a_row(5000, d), o))
        yield Case(op, "ordinary", lambda rng, o=op: call(scattered(rng, 100, 0.2), o))
        yield Case(op, "large", lambda rng, o=op: call(scattered(rng, 200_001, 0.2), o))


def scattered(rng: Rng, size: int, density: float) -> Array:
    return (rng.random(size) < density).astype(np.uint8)


def in_a_row(size: int, density: float) -> Array:
    """Bytes of ones, which chance would make once in many masks: they are escaped."""
    return (np.arange(size) < size * density).astype(np.uint8)


def call(bits: Array, op: str) -> Args:
    ones = int(bits.sum())
    code, size = blank_bytes(16 + (bits.size + 7) // 8 * 4), np.full(1, 7, np.int64)
    if op == "encode_mask":
        return {"bits": bits, "ones": ones, "code": code, "size": size}
    reference.encode_mask(bits, ones, code, size)
    found = code[code.size - size[0] :].copy()
    return {"code": found, "ones": ones, "bits": np.full(bits.size, 9, np.uint8), "size": np.full(1, 7, np.int64)}
