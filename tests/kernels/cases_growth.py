"""Adversarial searches for the largest gradients. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import WIDTHS, Args, Case, Rng, normal


def cases() -> Iterator[Case]:
    for size in (0, *WIDTHS, 100):
        for first in (0, 1, 8, 21):
            for count, room in ((0, 16), (1, 16), (size // 2, 17), (size // 2, 25), (size, 60)):
                label = f"{size}-at-{first}-{count}-of-{count + room}"
                setting = (size, first, count, count + room)
                yield Case("keep_largest", label, lambda rng, s=setting: part(rng, *s))
                yield Case("keep_largest", f"ties-{label}", lambda rng, s=setting: part(rng, *s, values=2))
        for count in {0, min(size, 1), size // 2, size}:
            yield Case("largest_places", f"{size}-{count}", lambda rng, n=size, k=count: ranked(rng, n, k))
            yield Case("largest_places", f"ties-{size}-{count}", lambda rng, n=size, k=count: ranked(rng, n, k, 2))
    yield Case(
        "keep_largest", "nothing-open", lambda rng: {**part(rng, 20, 0, 3, 19), "exists": np.full(3, 255, np.uint8)}
    )
    yield Case("keep_largest", "ordinary", lambda rng: part(rng, 30, 5, 3, 19))
    yield Case("keep_largest", "large", lambda rng: part(rng, 200_001, 3, 20_000, 30_000))
    yield Case("largest_places", "ordinary", lambda rng: ranked(rng, 30, 7))
    yield Case("keep_largest", "ties-large", lambda rng: part(rng, 100_001, 3, 20_000, 30_000, values=2))
    for first, values in ((0, None), (40_003, 2)):
        setting = (60_000, first, 33_000, 36_000, values)
        yield Case("keep_largest", f"long-list-at-{first}", lambda rng, s=setting: part(rng, *s))
    for size in (8192, 200_001):
        for label, values in (("large", None), ("ties-large", 2)):
            yield Case("largest_places", f"{label}-{size}", lambda rng, n=size, v=values: ranked(rng, n, n // 4, v))
    for size in (8192, 1 << 16):
        yield Case("largest_places", f"no-fair-sample-{size}", lambda rng, n=size: _unfair(ranked(rng, n, n // 8)))


def part(rng: Rng, size: int, first: int, count: int, capacity: int, values: int | None = None) -> Args:
    """Make a part whose list holds some values already, as a shrunk list does.

    Few `values` give ties, zeros and NaN.
    """
    grad = normal(rng, size) if values is None else _few(rng, size, values)
    used = min(count, first, capacity - 1)
    magnitudes = np.full(capacity, -3, np.float32)
    magnitudes[:used] = np.float32(0.5)
    places = np.full(capacity, -9, np.int32)
    places[:used] = np.arange(used)
    least = 0.5 if used == count and used else -1.0
    return {
        "grad": grad,
        "first": first,
        "exists": rng.integers(0, 256, (first + size + 7) // 8).astype(np.uint8),
        "count": count,
        "magnitudes": magnitudes,
        "places": places,
        "filled": np.array([used], np.int32),
        "smallest": np.array([least], np.float32),
    }


def ranked(rng: Rng, size: int, count: int, values: int | None = None) -> Args:
    """A list with room behind what fills it."""
    magnitudes = np.abs(normal(rng, size + 5) if values is None else np.nan_to_num(_few(rng, size + 5, values), nan=9))
    places = np.cumsum(rng.integers(1, 4, size + 5)).astype(np.int32)
    return {
        "magnitudes": magnitudes,
        "places": places,
        "filled": np.array([size], np.int32),
        "found": np.full(count, -7, np.int32),
    }


def _unfair(args: Args) -> Args:
    """Make every 32nd magnitude larger than the others. A sample may see nothing but these."""
    args["magnitudes"][::32] += 100
    return args


def _few(rng: Rng, size: int, values: int) -> np.ndarray:
    """Whole numbers up to `values` of either sign, with 0.0, -0.0, infinities and NaN among them."""
    found = rng.integers(-values, values + 1, size).astype(np.float32)
    found[::7] *= -0.0
    found[5::11] = np.nan
    found[3::13] = -np.inf
    return found
