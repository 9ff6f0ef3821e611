"""Adversarial calls of the normalisation by the root mean square. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, normal, pick, shape_label

Sizes = tuple[int, int, int, int]
RUNS = [(2, 2, 3, places) for places in WIDTHS] + [
    (1, 1, 1, 1),
    (3, 1, 17, 33),
    (2, 4, 2, 40),
    (0, 1, 3, 4),
    (2, 1, 3, 0),
]
"""Examples, runs, channels of a run, positions."""
ORDINARY, LARGE = (2, 2, 4, 6), (9, 2, 24, 35)


def cases() -> Iterator[Case]:
    for number, sizes in enumerate([*RUNS, ORDINARY, LARGE]):
        label = {len(RUNS): "ordinary", len(RUNS) + 1: "large"}.get(number, shape_label(*sizes))
        yield Case("rmsnorm_forward", label, lambda rng, s=sizes, o=float(number % 2): forward(rng, s, o))
        chosen = SELECTIONS[number % len(SELECTIONS)]
        yield Case(
            "rmsnorm_backward", label, lambda rng, s=sizes, o=float(number % 2), c=chosen: backward(rng, s, o, c)
        )


def forward(rng: Rng, sizes: Sizes, offset: float) -> Args:
    batch, runs, width, places = sizes
    return {
        "x": normal(rng, batch, runs * width, places),
        "weight": normal(rng, width),
        "y": blank(batch, runs * width, places),
        "inv_rms": blank(batch, runs, places),
        "offset": offset,
        "eps": 1e-5,
    }


def backward(rng: Rng, sizes: Sizes, offset: float, selection: str) -> Args:
    batch, runs, width, places = sizes
    outs = pick(selection, width)
    return {
        "dy": normal(rng, batch, runs * width, places),
        "x": normal(rng, batch, runs * width, places),
        "weight": normal(rng, width),
        "inv_rms": abs(normal(rng, batch, runs, places)),
        "offset": offset,
        "dx": blank(batch, runs * width, places),
        "dweight": blank(width if outs is None else len(outs)),
        "outs": outs,
    }
