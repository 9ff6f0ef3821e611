"""The optimizers of a server: a step along the gradient that replies add up to. The method's state has their memory.

This module is not a method. Moments are float64, like the sums that they come from. Parameters keep their type.

Source  Kingma and Ba, arXiv:1412.6980 (Adam, with the bias corrections of Algorithm 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from edgefl.learning.learner import Array
from edgefl.methods.task import State

Optimizer = Literal["sgd", "adam"]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
FIRST, SECOND, STEPS = "adam.first", "adam.second", "adam.steps"  # State's arrays of moments, and its step count


def step(optimizer: Optimizer, state: State, group: str, gradient: Mapping[str, Array], lr: float) -> State:
    """Return the state whose parameters of `group` took one step against a float64 gradient. `state` is not changed."""
    if optimizer == "sgd":
        change, arrays, values = {name: lr * g for name, g in gradient.items()}, {}, {}
    else:
        steps = int(state.values.get(STEPS, 0)) + 1
        first = _follow(state, FIRST, BETA1, gradient)
        second = _follow(state, SECOND, BETA2, {name: g * g for name, g in gradient.items()})
        change = {name: lr * _direction(first[name], second[name], steps) for name in gradient}
        arrays, values = {FIRST: first, SECOND: second}, {STEPS: steps}
    old = state.arrays[group]
    new = {name: (w - change[name]).astype(w.dtype) if name in change else w for name, w in old.items()}
    return State({**state.arrays, group: new, **arrays}, {**state.values, **values})


def _follow(state: State, moment: str, beta: float, towards: Mapping[str, Array]) -> dict[str, Array]:
    """Return the moving average after one more value. It starts at zero."""
    old = state.arrays.get(moment, {})
    return {name: beta * old.get(name, 0.0) + (1 - beta) * value for name, value in towards.items()}


def _direction(first: Array, second: Array, steps: int) -> Array:
    direction: Array = (first / (1 - BETA1**steps)) / (np.sqrt(second / (1 - BETA2**steps)) + EPSILON)
    return direction
