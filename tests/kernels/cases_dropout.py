"""Adversarial calls of dropout and of the count of its steps. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import EMPTY_PLANES, PLANES, SELECTIONS, Args, Case, Rng, blank, normal, pick, shape_label

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)
TILES = [(2, 64), (3, 63), (1, 65), (2, 129), (1, 3, 1025), (2, 17, 13)]  # of 64 values each
THRESHOLDS = (0, 1, 1 << 31, (1 << 32) - 1, 858993459)
STATES = ((0, 0, 0), (-1, 3, 2), (1 << 62, (1 << 32) + 5, (1 << 32) - 1))  # key, step, first example


def cases() -> Iterator[Case]:
    for number, shape in enumerate(PLANES + EMPTY_PLANES + TILES):
        for whole in (False, True):
            selection = ("all", *SELECTIONS[1:])[(number + whole) % 6]
            label = f"{shape_label(*shape)}-{'planes' if whole else 'values'}-{selection}"
            yield Case(
                "dropout",
                label,
                lambda rng, s=shape, n=number, w=whole, c=selection: dropout(rng, s, n, w, c),
            )
    yield Case("dropout", "ordinary", lambda rng: dropout(rng, IMAGE, 2, False, "odd"))
    yield Case("dropout", "large", lambda rng: dropout(rng, LARGE, 2, False, "all"))
    yield Case("dropout", "large-planes", lambda rng: dropout(rng, LARGE, 2, True, "odd"))
    for number, shape in enumerate(PLANES + EMPTY_PLANES + TILES):
        yield Case("uniform", shape_label(*shape), lambda rng, s=shape, n=number: uniform(s, n))
    yield Case("uniform", "ordinary", lambda rng: uniform(IMAGE, 2))
    yield Case("uniform", "large", lambda rng: uniform(LARGE, 2))
    for label, state in zip(("ordinary", "large", "far"), STATES, strict=True):
        yield Case("count_step", label, lambda rng, s=state: {"state": np.array(s, np.int64)})


def uniform(shape: tuple[int, ...], number: int) -> Args:
    state = np.array(STATES[number % len(STATES)], np.int64)
    return {"y": blank(*shape), "state": state, "node": (3, 0, (1 << 31) - 1)[number % 3]}


def dropout(rng: Rng, shape: tuple[int, ...], number: int, whole: bool, selection: str) -> Args:
    return {
        "x": normal(rng, *shape),
        "state": np.array(STATES[number % len(STATES)], np.int64),
        "node": (3, 0, (1 << 31) - 1)[number % 3],
        "threshold": THRESHOLDS[number % len(THRESHOLDS)],
        "scale": 1.25,
        "whole": whole,
        "y": blank(*shape),
        "channels": pick(selection, shape[1]),
    }
