"""Calls of every kernel operation, by operation, and what their makers share. No backend and no comparison is here.

A case makes the arguments of one call, in the operation's order: float32 inputs, and outputs filled with a sentinel so
that a write outside the promise is seen. A family's cases are what `cases()` of its cases_<family>.py yields, and
nowhere else. They are shapes at the edges of SIMD vectors, empty and full selections, an ordinary call, and large
calls.
"""

from __future__ import annotations

import functools
import importlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.table import FAMILIES, TABLE

Array = NDArray[Any]
Args = dict[str, Any]
Rng = np.random.Generator

SENTINEL = np.float32(-7.25e30)  # exact in float32, and no kernel's result
WIDTHS = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17)  # 1, W - 1, W, W + 1 for words of W = 4, 8, 16 floats
SELECTIONS = ("all", "none", "one", "but_one", "every", "odd")


@dataclass(frozen=True)
class Case:
    """One call: `make` draws its arguments, name to value in the operation's order.

    An operation's one "ordinary" call has explicit ids wherever it may. A "large" call is split over several threads.
    The other calls are adversarial.
    """

    op: str
    label: str
    make: Callable[[Rng], Args]

    def args(self) -> Args:
        """The arguments, the same every time."""
        return self.make(np.random.default_rng(zlib.crc32(str(self).encode())))

    def __str__(self) -> str:
        return f"{self.op}-{self.label}"


def normal(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def blank(*shape: int) -> Array:
    return np.full(shape, SENTINEL, np.float32)


def blank_bytes(*shape: int) -> Array:
    return np.full(shape, 0xA5, np.uint8)


def pick(kind: str, size: int) -> Array | None:
    """The ids of a selection by name: None for "all", explicit ids for the others."""
    ids = {
        "none": [],
        "one": [size // 2] if size else [],
        "but_one": [i for i in range(size) if i != size // 3],
        "every": range(size),
        "odd": range(1, size, 2),
    }
    return None if kind == "all" else np.array(list(ids[kind]), np.int32)


def count(ids: Array | None, size: int) -> int:
    return size if ids is None else len(ids)


def shape_label(*shape: int) -> str:
    return "x".join(map(str, shape))


PLANES = [(2, 3, 1), *((2, 3, n) for n in WIDTHS), (1, 17, 5), (3, 5, 7, 3), (17, 4, 33), (5, 9), (4, 1, 64)]


EMPTY_PLANES = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]
BLOCKS = [
    (3, 4, 1),
    (5, 3, 9),
    (1, 1, 1),
    (17, 8, 1),
    (8, 17, 4),
    (4, 1, 25),
    (7, 1, 1),
    (0, 3, 2),
    (3, 0, 2),
    (2, 33, 9),
]
# [rows, cols, inner] of parameters


# ---- by operation ---------------------------------------------------------------------------------------------------


@functools.cache
def by_operation() -> dict[str, list[Case]]:
    """Return every case of every family, by operation."""
    found: dict[str, list[Case]] = {op: [] for op in TABLE}
    for family in FAMILIES:
        for case in importlib.import_module(f"{__package__}.cases_{family}").cases():
            found[case.op].append(case)
    return found


def adversarial(op: str) -> list[Case]:
    return [case for case in by_operation()[op] if case.label != "ordinary" and not case.label.startswith("large")]


def ordinary(op: str) -> Case:
    (case,) = [case for case in by_operation()[op] if case.label == "ordinary"]
    return case


def large(op: str) -> list[Case]:
    return [case for case in by_operation()[op] if case.label.startswith("large")]


def rectifiers() -> list[str]:
    """The activations that keep one bit per element: the pairs NAME_forward and NAME_backward with bytes of bits."""
    kept = [op.removesuffix("_forward") for op, row in TABLE.items() if any("bytes" in rule for rule in row.rules)]
    return [name for name in kept if f"{name}_backward" in TABLE]


def settings(case: Case) -> Args:
    """The real numbers among a case's arguments."""
    return {name: value for name, value in case.args().items() if isinstance(value, float)}
