"""The checks of hyper-parameters that methods share. Each error names the option, its value and what was expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

LARGEST = 3.4028234663852886e38  # largest number of float32


def check_tiers(keep: Sequence[float]) -> None:
    """Raise ValueError unless these are shares of the neurons, at least one."""
    check(len(keep) > 0, "keep", keep, "at least one tier")
    for p in keep:
        check(0 < p <= 1, "keep", p, "0 < keep <= 1")


def check(ok: bool, name: str, value: object, expected: str) -> None:
    """Raise ValueError naming a hyper-parameter, its value and what was expected, unless `ok`."""
    if not ok:
        raise ValueError(f"{name}={value}; expected {expected}")


def check_sgd(per_round: int, epochs: int, batch: int, lr: float) -> None:
    """Raise ValueError for a value that no method with plain local SGD accepts."""
    check(per_round >= 1, "per_round", per_round, "per_round >= 1")
    check(epochs >= 1, "epochs", epochs, "epochs >= 1")
    check(batch >= 1, "batch", batch, "batch >= 1")
    check(0 < lr < float("inf"), "lr", lr, "a finite lr > 0")


def check_choices(method: object) -> None:
    """Raise ValueError for a field declared as a Literal whose value is not among its choices."""
    kind: Any = type(method)
    for name, choices in _choices(kind).items():
        check(getattr(method, name) in choices, name, getattr(method, name), " or ".join(choices))


@cache
def _choices(kind: type) -> dict[str, tuple[str, ...]]:
    """Return the choices of each field that is declared as a Literal. Python evaluates all annotations for them."""
    return {name: get_args(hint) for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal}


def check_range(name: str, value: object) -> None:
    """Raise ValueError for a number, or a list with a number, that float32 does not hold. Infinity is accepted here."""
    if isinstance(value, tuple | list):
        for each in value:
            check_range(name, each)
    elif isinstance(value, int | float) and LARGEST < abs(value) < math.inf:
        found = f"{value:g}" if isinstance(value, float) else f"a whole number of {value.bit_length()} bits"
        raise ValueError(f"{name}={found}; expected at most {LARGEST:g}, as float32 holds no larger number")
