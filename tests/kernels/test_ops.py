"""Every operation, adversarial case and backend against the float64 reference, within the bounds of bounds.py."""

from __future__ import annotations

from types import ModuleType

import pytest

from edgefl.kernels.ops import OPS

from .calls import check_case
from .cases import (
    Case,
    batch_cases,
    channel_sum_cases,
    elementwise_cases,
    linear_cases,
    norm_cases,
    pool_cases,
)
from .cases_conv import conv_cases
from .cases_norm_relu import norm_relu_cases
from .cases_update import loss_cases, parameter_cases, sgd_cases

FAMILIES = (
    batch_cases,
    conv_cases,
    linear_cases,
    channel_sum_cases,
    norm_cases,
    norm_relu_cases,
    elementwise_cases,
    pool_cases,
    loss_cases,
    sgd_cases,
    parameter_cases,
)
CASES = [case for family in FAMILIES for case in family()]


def test_every_operation_has_cases() -> None:
    assert {case.op for case in CASES} == set(OPS)


def test_arguments_are_in_the_order_of_the_list() -> None:
    for case in CASES:
        assert tuple(case.args()) == OPS[case.op].arguments, case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operation_matches_reference(backend: ModuleType, case: Case) -> None:
    check_case(backend, case)
