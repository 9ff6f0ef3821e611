"""Adversarial calls of attention. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefl.kernels import reference

from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, normal, pick, shape_label

Sizes = tuple[int, int, int, int]
SEQUENCES = [(2, 2, 3, places) for places in WIDTHS] + [
    (1, 1, 1, 1),
    (1, 5, 1, 40),
    (3, 1, 17, 6),
    (2, 4, 2, 33),
    (1, 2, 20, 50),
    (0, 2, 3, 4),
    (2, 2, 3, 0),
]
ORDINARY, LARGE = (2, 5, 4, 6), (9, 5, 8, 35)
"""Examples, heads, channels of a head, places."""


def cases() -> Iterator[Case]:
    for number, sizes in enumerate(SEQUENCES):
        for causal in (False, True):
            label = f"{shape_label(*sizes)}{'-causal' if causal else ''}"
            selection = SELECTIONS[(number + causal) % len(SELECTIONS)]
            yield Case(
                "attention_forward", label, lambda rng, s=sizes, c=causal, k=bool(number % 2): forward(rng, s, c, k)
            )
            yield Case(
                "attention_backward",
                f"{label}-{selection}",
                lambda rng, s=sizes, c=causal, n=selection: backward(rng, s, c, n),
            )
    for label, sizes in (("ordinary", ORDINARY), ("large", LARGE)):
        yield Case("attention_forward", label, lambda rng, s=sizes: forward(rng, s, True, True))
        yield Case("attention_backward", label, lambda rng, s=sizes: backward(rng, s, True, "odd"))


def forward(rng: Rng, sizes: Sizes, causal: bool, keeps: bool) -> Args:
    batch, heads, size, places = sizes
    return {
        "qkv": normal(rng, batch, 3 * heads * size, places),
        "heads": heads,
        "causal": causal,
        "y": blank(batch, heads * size, places),
        "shares": blank(batch, heads, places, places) if keeps else None,
    }


def backward(rng: Rng, sizes: Sizes, causal: bool, selection: str) -> Args:
    """Make the arguments with the shares that belong to qkv."""
    batch, heads, size, places = sizes
    made = forward(rng, sizes, causal, True)
    wide = {name: value.astype(np.float64) if isinstance(value, np.ndarray) else value for name, value in made.items()}
    reference.attention_forward(**wide)
    return {
        "dy": normal(rng, batch, heads * size, places),
        "qkv": made["qkv"],
        "shares": wide["shares"].astype(np.float32),
        "heads": heads,
        "causal": causal,
        "dqkv": blank(batch, 3 * heads * size, places),
        "heads_needed": pick(selection, heads),
    }
