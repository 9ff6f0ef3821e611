"""Adversarial calls of RNN, GRU, LSTM and of sequences turned into steps. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, normal, pick, shape_label

SEQUENCES = [(3, 2, units) for units in WIDTHS] + [(1, 1, 1), (7, 17, 5), (2, 7, 33), (5, 6, 20), (1, 3, 4), (9, 13, 2)]
EMPTY = [(0, 2, 3), (2, 0, 3), (2, 3, 0)]
ORDINARY, LARGE = (4, 3, 6), (6, 31, 40)
"""Steps, examples, units."""


def cases() -> Iterator[Case]:
    for shape in (*SEQUENCES, *EMPTY):
        label = shape_label(*shape)
        yield Case("to_steps", label, lambda rng, s=shape: to_steps(rng, s))
        for passed in (0, 2):
            yield Case("from_steps", f"{label}+{passed}", lambda rng, s=shape, p=passed: from_steps(rng, s, p))
    for number, shape in enumerate((*SEQUENCES, *EMPTY)):
        label, bias, selection = shape_label(*shape), bool(number % 3), SELECTIONS[number % len(SELECTIONS)]
        yield from _both(label, shape, bias, bool(number % 2), selection)
        yield from _both(f"{label}-whole", shape, not bias, not number % 2, "all")
    for label, shape in (("ordinary", ORDINARY), ("large", LARGE)):
        yield Case("to_steps", label, lambda rng, s=shape: to_steps(rng, s))
        yield Case("from_steps", label, lambda rng, s=shape: from_steps(rng, s, 1))
        yield from _both(label, shape, True, True, "odd")


def _both(label: str, shape: tuple[int, int, int], bias: bool, keeps: bool, selection: str) -> Iterator[Case]:
    named = label if label in ("ordinary", "large") else f"{label}-{selection}"
    yield Case("rnn_forward", label, lambda rng: rnn_forward(rng, shape, bias, keeps))
    yield Case("rnn_backward", named, lambda rng: rnn_backward(rng, shape, keeps, selection))
    yield Case("gru_forward", label, lambda rng: gru_forward(rng, shape, bias, keeps))
    yield Case("gru_backward", named, lambda rng: gru_backward(rng, shape, selection))
    yield Case("lstm_forward", label, lambda rng: lstm_forward(rng, shape, bias))
    yield Case("lstm_backward", named, lambda rng: lstm_backward(rng, shape, selection))


def to_steps(rng: Rng, shape: tuple[int, int, int]) -> Args:
    steps, batch, channels = shape
    return {"x": normal(rng, batch, channels, steps), "y": blank(*shape)}


def from_steps(rng: Rng, shape: tuple[int, int, int], passed: int) -> Args:
    steps, batch, channels = shape
    return {"y": normal(rng, steps + passed, batch, channels), "x": blank(batch, channels, steps)}


def _weight(rng: Rng, gates: int, units: int) -> np.ndarray:
    return normal(rng, gates * units, units) / np.float32(np.sqrt(max(units, 1)))


def _between(rng: Rng, shape: tuple[int, ...], low: float) -> np.ndarray:
    """Return results of gates, also near the ends: of sigmoids from 0 on, of tanh from -1 on."""
    values = rng.uniform(low, 1, shape).astype(np.float32)
    values.reshape(-1)[:1] = 1 - 2.0**-20
    values.reshape(-1)[1:2] = low + 2.0**-20
    return values


def _gates(rng: Rng, shape: tuple[int, int, int], lows: tuple[float, ...]) -> np.ndarray:
    return np.concatenate([_between(rng, shape, low) for low in lows], axis=2)


def rnn_forward(rng: Rng, shape: tuple[int, int, int], bias: bool, relu: bool) -> Args:
    steps, batch, units = shape
    return {
        "gates": 2 * normal(rng, *shape),
        "weight": _weight(rng, 1, units),
        "bias": normal(rng, units) if bias else None,
        "relu": relu,
        "states": blank(steps + 1, batch, units),
    }


def rnn_backward(rng: Rng, shape: tuple[int, int, int], relu: bool, selection: str) -> Args:
    return {
        "dy": normal(rng, *shape),
        "gates": _gates(rng, shape, (-1,)),
        "weight": _weight(rng, 1, shape[2]),
        "relu": relu,
        "units": pick(selection, shape[2]),
    }


def gru_forward(rng: Rng, shape: tuple[int, int, int], bias: bool, keeps: bool) -> Args:
    steps, batch, units = shape
    return {
        "gates": 2 * normal(rng, steps, batch, 3 * units),
        "weight": _weight(rng, 3, units),
        "bias": normal(rng, 3 * units) if bias else None,
        "hidden": blank(*shape) if keeps else None,
        "states": blank(steps + 1, batch, units),
    }


def gru_backward(rng: Rng, shape: tuple[int, int, int], selection: str) -> Args:
    steps, batch, units = shape
    return {
        "dy": normal(rng, *shape),
        "gates": _gates(rng, shape, (0, 0, -1)),
        "hidden": normal(rng, *shape),
        "states": _between(rng, (steps + 1, batch, units), -1),
        "weight": _weight(rng, 3, units),
        "dhidden": blank(steps, batch, 3 * units),
        "units": pick(selection, units),
    }


def lstm_forward(rng: Rng, shape: tuple[int, int, int], bias: bool) -> Args:
    steps, batch, units = shape
    return {
        "gates": 2 * normal(rng, steps, batch, 4 * units),
        "weight": _weight(rng, 4, units),
        "bias": normal(rng, 4 * units) if bias else None,
        "cells": blank(steps + 1, batch, units),
        "states": blank(steps + 1, batch, units),
    }


def lstm_backward(rng: Rng, shape: tuple[int, int, int], selection: str) -> Args:
    steps, batch, units = shape
    return {
        "dy": normal(rng, *shape),
        "gates": _gates(rng, shape, (0, 0, -1, 0)),
        "cells": normal(rng, steps + 1, batch, units),
        "weight": _weight(rng, 4, units),
        "units": pick(selection, units),
    }
