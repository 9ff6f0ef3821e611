"""Calls for the tests: arguments copied into guarded memory, and outputs compared with the float64 reference.

`each` checks many cases in one test, which fails with the names of all failed cases.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.kernels import ISAS, reference

from .bounds import Bounds, bounds
from .cases import Args, Array, Case

GUARD = 64  # elements on each side
SHOWN = 12  # failures of a test that are told


def each(cases: Iterable[tuple[object, Callable[[], object]]]) -> None:
    """Make every check. Fail if a check fails, with the names and reasons of all failures, or if there is no check."""
    failures, count = [], 0
    for name, check in cases:
        count += 1
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:
            failures.append((f"{name}: {type(error).__name__}: {error}", error))
    assert count, "no cases"
    if failures:
        told = "\n".join(message for message, _ in failures[:SHOWN])
        raise AssertionError(f"{len(failures)} of {count} cases failed:\n{told}") from failures[0][1]


class Guarded:
    """Copies of the arrays of one call, each inside a buffer whose margins are poisoned and checked afterwards."""

    def __init__(self, args: Args, shift: int = 1) -> None:
        """shift  elements off the buffer's alignment, so that no kernel may assume aligned data"""
        self._shift, self._buffers = shift, {}
        self.args: Args = {name: self._put(name, value) for name, value in args.items()}

    def _put(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        buffer = np.full(value.size + 2 * GUARD, np.nan if value.dtype.kind == "f" else 77, value.dtype)
        inside = buffer[GUARD + self._shift : GUARD + self._shift + value.size].reshape(value.shape)
        inside[...] = value
        self._buffers[name] = buffer
        return inside

    def check(self) -> None:
        """Fail if anything was written outside an array."""
        for name, buffer in self._buffers.items():
            start, size = GUARD + self._shift, self.args[name].size
            margins = np.concatenate([buffer[:start], buffer[start + size :]])
            untouched = np.isnan(margins) if buffer.dtype.kind == "f" else margins == 77
            assert untouched.all(), f"{name}: written outside its memory"


def is_emulated(backend: ModuleType) -> bool:
    """Return whether the backend is the CUDA backend on its stand-in."""
    return backend.__name__.endswith(".cuda.backend") and backend.DEVICE.name == "stand-in"


def native_isas() -> list[str]:
    """Return the instruction sets of this machine and build, or one that will fail where native cannot be loaded."""
    try:
        native = importlib.import_module("edgefl.kernels.native")
    except ImportError:
        return [ISAS[0]]
    return [isa for isa in ISAS if native.has_isa(isa)]


def as_float64(args: Args) -> Args:
    """Return the call's arguments in float64, in memory of their own."""
    return {name: _widened(value) for name, value in args.items()}


def _widened(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return value.astype(np.float64) if value.dtype == np.float32 else value.copy()


def run(module: ModuleType, op: str, args: Args) -> Args:
    """Call `op` with its arguments by position, as every caller does, and return the arguments."""
    getattr(module, op)(*args.values())
    return args


def copied(args: Args) -> Args:
    """Return the call's arguments in memory of their own."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in args.items()}


@dataclass(frozen=True)
class Answer:
    """The arguments of a case, what the float64 reference makes of them, and the error that is allowed."""

    args: Args
    wanted: Args
    allowed: Bounds

    @classmethod
    def of(cls, case: Case, bounds: Callable[..., Bounds] = bounds) -> Answer:
        args = case.args()
        wanted = run(reference, case.op, as_float64(args))
        return cls(args, wanted, bounds(case.op, as_float64(args), wanted))


def check_case(module: ModuleType, case: Case, bounds: Callable[..., Bounds] = bounds) -> None:
    """Compare one call with the float64 reference, and everything it may not touch with what was there."""
    check_answer(module, case, Answer.of(case, bounds))


def check_answer(module: ModuleType, case: Case, answer: Answer) -> None:
    """Compare one call with an answer that may be asked of several backends."""
    guarded = Guarded(answer.args)
    found = run(module, case.op, guarded.args)
    guarded.check()
    for name, value in answer.wanted.items():
        if isinstance(value, np.ndarray):
            compare(name, found[name], value, answer.args[name], answer.allowed.get(name))


def compare(name: str, found: Array, wanted: Array, initial: Array, allowed: Array | None) -> None:
    """Require |found - wanted| <= allowed where the reference wrote, and the initial bits where it did not."""
    with np.errstate(invalid="ignore"):
        wrote = (wanted != initial) & ~((wanted != wanted) & (initial != initial))  # NaN that stays
        exact = wanted.astype(initial.dtype)
        tolerance = np.zeros(wanted.shape) if allowed is None else allowed
        error = np.abs(found.astype(np.float64) - (exact if allowed is None else wanted))
    same_bits = found.view(f"u{found.itemsize}") == initial.view(f"u{initial.itemsize}")
    assert same_bits[~wrote].all(), f"{name}: written at {np.argwhere(~same_bits & ~wrote)[0]} outside the selection"
    bad = wrote & ~((error <= tolerance) | (found == exact))  # the latter for infinities
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        detail = f"found {found[at]!r}, reference {wanted[at]!r}, allowed error {tolerance[at]:.3g}"
        raise AssertionError(f"{name}{list(map(int, at))}: {detail}; {int(bad.sum())} of {bad.size} differ")
