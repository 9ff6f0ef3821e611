"""Values of every size to bytes and back; see cases.py for what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import WIDTHS, Args, Array, Case, Rng, blank, blank_bytes, normal

SIZES = (0, *WIDTHS, 255, 256, 257, 511, 512, 700)
SCALES = (0.0, 1e-45, 1e-31, 1e-30, 1.0, 3e37)


def cases() -> Iterator[Case]:
    for op in ("narrow_int8", "widen_int8"):
        for size in SIZES:
            yield Case(op, f"{size}", lambda rng, n=size, o=op: call(rng, normal(rng, n), o))
        for scale in SCALES:
            yield Case(op, f"times {scale}", lambda rng, s=scale, o=op: call(rng, normal(rng, 600) * np.float32(s), o))
        yield Case(op, "ordinary", lambda rng, o=op: call(rng, normal(rng, 300), o))
        yield Case(op, "large", lambda rng, o=op: call(rng, normal(rng, 200_001), o))


def call(rng: Rng, x: Array, op: str) -> Args:
    largest, codes = blank(-(-x.size // 256)), blank_bytes(x.size)
    if op == "narrow_int8":
        return {"x": x, "noise": rng.integers(0, 256, x.size, np.uint8), "largest": largest, "codes": codes}
    largest[...] = np.abs(normal(rng, largest.size)) * (np.abs(x).max() if x.size else 1)
    return {"largest": largest, "codes": rng.integers(1, 256, x.size, np.uint8), "x": blank(x.size)}
