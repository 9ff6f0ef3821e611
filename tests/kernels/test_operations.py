"""Every operation, adversarial case and backend against the float64 reference, within the bounds of bounds.py."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import ModuleType

import pytest

from edgefl.kernels.table import TABLE

from .calls import Answer, check_answer, each, is_emulated
from .cases import Case, adversarial, by_operation
from .cuda.sampling import of_every_kernel


@pytest.fixture(scope="module")
def answer(op: str) -> Callable[[Case], Answer]:
    """Computes each answer once for all backends: an operation's tests follow each other."""
    return functools.cache(Answer.of)


@pytest.mark.parametrize("op", TABLE, scope="module")
def test_operation_matches_reference(
    backend: ModuleType, op: str, answer: Callable[[Case], Answer], request: pytest.FixtureRequest
) -> None:
    """All cases agree. CUDA runs some cases of each kernel by day, and where EDGEFL_CUDA_CASES is `kernels`.

    The emulation of CUDA takes a hundredth of a second for a case.
    """
    cases, asked = adversarial(op), os.environ.get("EDGEFL_CUDA_CASES")
    by_day = is_emulated(backend) and asked != "all" and not request.config.getoption("--nightly")
    if backend.__name__.endswith(".cuda.backend") and (asked == "kernels" or by_day):
        cases = of_every_kernel(backend, cases)
    each((case, lambda case=case: check_answer(backend, case, answer(case))) for case in cases)


def test_arguments_of_the_cases_are_in_the_order_of_the_table() -> None:
    for op, cases in by_operation().items():
        assert all(tuple(case.args()) == TABLE[op].names for case in cases), op


def test_every_backend_has_every_operation_with_the_signature_of_the_table(backend: ModuleType) -> None:
    for op, row in TABLE.items():
        parameters = inspect.signature(getattr(backend, op)).parameters.values()
        plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        assert str(inspect.Signature(plain)) == row.as_python, op
        assert getattr(backend, op).__doc__, op


def test_arguments_are_given_by_position_or_by_name(backend: ModuleType) -> None:
    for op in TABLE:
        args = adversarial(op)[0].args()
        names = list(args)
        some = {name: args[name] for name in reversed(names[1:])}
        getattr(backend, op)(args[names[0]], **some)


def test_a_failing_case_is_named() -> None:
    def fail() -> None:
        raise ValueError("y=3")

    with pytest.raises(AssertionError, match=r"1 of 2 cases failed:\nadd-4: ValueError: y=3"):
        each([("add-3", lambda: None), ("add-4", fail)])


def test_a_test_without_cases_fails() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        each([])
