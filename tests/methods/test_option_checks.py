"""Hyper-parameters that float32 does not hold are refused by name, and so are a plan's settings."""

from __future__ import annotations

import math
from typing import Any

import pytest

from edgefl.methods import METHODS, build, settings_of
from edgefl.methods.option_checks import LARGEST, check_range


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1e300, "lr=1e+300"),
        (-1e300, "lr=-1e+300"),
        (3.5e38, "lr=3.5e+38"),
        (10**400, "lr=a whole number of 1329 bits"),
        ((0.9, 1e39), "lr=1e+39"),
        ([1e39], "lr=1e+39"),
    ],
)
def test_a_number_that_float32_does_not_hold_is_named(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match="expected at most") as error:
        check_range("lr", value)
    assert str(error.value) == f"{said}; expected at most 3.40282e+38, as float32 holds no larger number"


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 0, 1e-300, math.inf, -math.inf, math.nan, True, "x", (0.1, "a")])
def test_what_float32_holds_and_what_is_no_number_is_the_methods_to_judge(value: Any) -> None:
    check_range("lr", value)


CASES = [
    (method, name)
    for method in sorted(METHODS)
    for name, default in settings_of(method).items()
    if isinstance(default, float) and math.isfinite(default)
]


@pytest.mark.parametrize(("method", "name"), CASES)
def test_every_rate_of_every_method_is_within_float32(method: str, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        build(method, {name: 1e300})
