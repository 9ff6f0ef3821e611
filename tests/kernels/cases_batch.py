"""Adversarial picks of a batch. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import SELECTIONS, Args, Case, Rng, blank, count, normal, pick, shape_label


def cases() -> Iterator[Case]:
    for width in (1, 7, 8, 9, 17):
        for number in (0, 1, 5):
            size = (6, width, number)
            yield Case("gather_rows", f"u8-{number}x{width}", lambda rng, s=size: rows(rng, True, *s))
            yield Case("gather_rows", f"f32-{number}x{width}", lambda rng, s=size: rows(rng, False, *s))
    for number in (0, 1, 9):
        yield Case("gather_labels", str(number), lambda rng, n=number: labels(rng, 11, n))
    for shape in ((2, 5, 3, 3), (3, 17), (0, 4, 2, 2), (1, 1, 1, 1)):
        for kind in SELECTIONS:
            yield Case("take_channels", f"{shape_label(*shape)}-{kind}", lambda rng, s=shape, k=kind: take(rng, s, k))

    for lanes in (1, 2, 4, 8, 16, 17):
        for batch, *plane in ((lanes, 5), (3 * lanes, 3, 4, 5), (0, 2, 2), (2 * lanes, 1), (lanes, 1, 35)):
            label = f"{lanes}-{shape_label(batch, *plane)}"
            yield Case("to_lanes", label, lambda rng, s=(batch, *plane), n=lanes: turn(rng, s, n, ("x", "y")))
            yield Case("from_lanes", label, lambda rng, s=(batch, *plane), n=lanes: turn(rng, s, n, ("y", "x")))
    for label, shape in (("ordinary", (4, 3, 5)), ("large", (32, 24, 16, 18))):
        yield Case("to_lanes", label, lambda rng, s=shape: turn(rng, s, 4, ("x", "y")))
        yield Case("from_lanes", label, lambda rng, s=shape: turn(rng, s, 4, ("y", "x")))
    yield Case("gather_rows", "ordinary", lambda rng: rows(rng, False, 5, 3, 2))
    yield Case("gather_rows", "large", lambda rng: rows(rng, True, 50, 3072, 128))
    yield Case("gather_labels", "ordinary", lambda rng: labels(rng, 5, 2))
    yield Case("gather_labels", "large", lambda rng: labels(rng, 1000, 100_000))
    yield Case("take_channels", "ordinary", lambda rng: take(rng, (2, 6, 4, 5), "odd"))
    yield Case("take_channels", "large", lambda rng: take(rng, (16, 24, 16, 18), "odd"))


def rows(rng: Rng, is_bytes: bool, held: int, width: int, number: int) -> Args:
    src = rng.integers(0, 256, (held, width)).astype(np.uint8) if is_bytes else normal(rng, held, width)
    index = rng.integers(0, held, number).astype(np.int32)
    return {"src": src, "index": index, "scale": 1 / 255, "shift": -0.5, "out": blank(number, width)}


def labels(rng: Rng, held: int, number: int) -> Args:
    src, index = rng.integers(0, 99, held).astype(np.int32), rng.integers(0, held, number).astype(np.int32)
    return {"src": src, "index": index, "out": np.full(number, -5, np.int32)}


def turn(rng: Rng, shape: tuple[int, ...], lanes: int, names: tuple[str, str]) -> Args:
    read, written = names
    return {read: normal(rng, *shape), "lanes": lanes, written: blank(*shape)}


def take(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
    channels = pick(kind, shape[1])
    out = blank(shape[0], count(channels, shape[1]), *shape[2:])
    return {"x": normal(rng, *shape), "channels": channels, "out": out}
