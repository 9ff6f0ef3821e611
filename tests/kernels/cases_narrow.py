"""Values of every size to bytes and back. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import stored_weights
from .cases import WIDTHS, Args, Array, Case, Rng, blank, blank_bytes, normal

SIZES = (0, *WIDTHS, 255, 256, 257, 511, 512, 700)
HALVES = ("narrow_float16", "widen_float16", "narrow_bfloat16", "widen_bfloat16")
SCALES = (0.0, 1e-45, 1e-31, 1e-30, 1.0, 3e37)


def cases() -> Iterator[Case]:
    yield from stored_weights.widened()
    for op in HALVES:
        for size in (0, *WIDTHS):
            yield Case(op, f"{size}", lambda rng, n=size, o=op: halved(rng, normal(rng, n), o))
        for scale in (1e-45, 1e-39, 1e-38, 3e-8, 6e-5, 2e4, 5e37):
            yield Case(
                op, f"times {scale}", lambda rng, s=scale, o=op: halved(rng, normal(rng, 600) * np.float32(s), o)
            )
        yield Case(op, "ties", lambda rng, o=op: halved(rng, ties(), o))
        yield Case(op, "ordinary", lambda rng, o=op: halved(rng, normal(rng, 300), o))
        yield Case(op, "large", lambda rng, o=op: halved(rng, normal(rng, 200_001), o))
    for op in ("narrow_int8", "widen_int8"):
        for size in SIZES:
            yield Case(op, f"{size}", lambda rng, n=size, o=op: call(rng, normal(rng, n), o))
        for scale in SCALES:
            yield Case(op, f"times {scale}", lambda rng, s=scale, o=op: call(rng, normal(rng, 600) * np.float32(s), o))
        yield Case(op, "ordinary", lambda rng, o=op: call(rng, normal(rng, 300), o))
        yield Case(op, "large", lambda rng, o=op: call(rng, normal(rng, 200_001), o))


def ties() -> Array:
    """Return values half way between two 16-bit floats, and next to them, infinity, and values that round to it."""
    steps = np.arange(1, 40, dtype=np.float32)
    between = [1 + steps * 2.0**-11, 1 + steps * 2.0**-8, steps * 2.0**-25, 2.0**-14 - steps * 2.0**-25]
    edges = np.array([65519, 65520, 65504, 3.3895314e38, 3.3961776e38, np.inf, 0.0], np.float32)
    values = np.concatenate([*between, edges]).astype(np.float32)
    with np.errstate(over="ignore"):
        return np.concatenate([way for each in (values, -values) for way in (each, np.nextafter(each, np.float32(0)))])


def halved(rng: Rng, x: Array, op: str) -> Args:
    if op.startswith("narrow"):
        return {"x": x, "halves": blank_bytes(2 * x.size)}
    halves = rng.integers(0, 256, (x.size, 2), np.uint8)
    halves[(halves[:, 1] & 0x7C) == 0x7C, 1] = 0x3C  # of finite values
    return {"halves": halves.reshape(-1), "x": blank(x.size)}


def call(rng: Rng, x: Array, op: str) -> Args:
    largest, codes = blank(-(-x.size // 256)), blank_bytes(x.size)
    if op == "narrow_int8":
        return {"x": x, "noise": rng.integers(0, 256, x.size, np.uint8), "largest": largest, "codes": codes}
    largest[...] = np.abs(normal(rng, largest.size)) * (np.abs(x).max() if x.size else 1)
    return {"largest": largest, "codes": rng.integers(1, 256, x.size, np.uint8), "x": blank(x.size)}
