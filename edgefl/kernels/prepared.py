"""Operations of a Python backend that check their arguments once and may then be called many times.

An operation is written as a function that checks and returns a call: a function and its arguments. Called directly it
makes that call at once; a Program keeps it. Array views are fixed by then, array contents are read by the call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from .checks import Array, Ids

P = ParamSpec("P")
Call = tuple[Callable[..., None], tuple[Any, ...]]


def operation(prepare: Callable[P, Call]) -> Callable[P, None]:
    """The operation that makes the call which `prepare` returns; `prepare` itself is its attribute __wrapped__."""

    @functools.wraps(prepare)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        function, values = prepare(*args, **kwargs)
        function(*values)

    return run


def all_or(ids: Ids, size: int) -> Array:
    """The ids, spelt out where None means all."""
    return np.arange(size, dtype=np.int32) if ids is None else ids


def split_planes(x: Array) -> Array:
    """[B, C, ...] as [B, C, inner]."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
