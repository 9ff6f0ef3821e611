"""Adversarial calls of the rotary embedding. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import WIDTHS, Args, Case, Rng, blank, normal, shape_label

Sizes = tuple[int, int, int, int]
RUNS = [(2, 2, 4, places) for places in WIDTHS] + [(1, 1, 2, 1), (3, 1, 18, 33), (0, 1, 2, 4), (2, 1, 2, 0)]
"""Examples, runs, channels of a run, positions."""
ORDINARY, LARGE = (2, 2, 4, 6), (9, 2, 24, 35)


def cases() -> Iterator[Case]:
    for number, sizes in enumerate([*RUNS, ORDINARY, LARGE]):
        label = {len(RUNS): "ordinary", len(RUNS) + 1: "large"}.get(number, shape_label(*sizes))
        for back in (False, True):
            yield Case("rotary", label + "-back" * back, lambda rng, s=sizes, b=back: rotary(rng, s, b))


def rotary(rng: Rng, sizes: Sizes, back: bool) -> Args:
    batch, runs, width, places = sizes
    return {
        "x": normal(rng, batch, runs * width, places),
        "cos": normal(rng, width, places),
        "sin": normal(rng, width, places),
        "back": back,
        "y": blank(batch, runs * width, places),
    }
