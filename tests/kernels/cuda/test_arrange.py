"""Rows of a table of more places than a block looks at between two barriers, and of ids that nobody has checked."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from ..calls import check_case
from ..cases import Case
from ..cases_arrange import summed_up, transposed
from . import standin

IDS = np.array([[0, 2.5, 3, -1, np.nan, 1, np.inf, 1e30]], np.float32)
INSIDE = [True, False, False, False, False, True, False, False]


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


def test_sums_of_many_positions(backend: ModuleType) -> None:
    for padding, kind in ((-1, "all"), (3, "odd")):
        case = Case("embedding_backward", f"long-{kind}", lambda rng, p=padding, k=kind: sums(rng, p, k))
        check_case(backend, case)


def sums(rng: np.random.Generator, padding: int, kind: str) -> dict[str, object]:
    return summed_up(rng, (3, 1100, 40), 12, padding, kind)


def test_id_that_names_no_row_reads_nothing(backend: ModuleType) -> None:
    held, y = backend.MEMORY.hold(IDS), np.zeros((1, 2, IDS.size), np.float32)
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    backend.embedding_forward(held, weight, y)
    assert np.isnan(y[0]).tolist() == [[not inside for inside in INSIDE]] * 2
    assert y[0][:, INSIDE].tolist() == [[0, 2], [1, 3]]
    dweight = np.zeros((3, 2), np.float32)
    backend.embedding_backward(np.ones_like(y), held, dweight, -1, None)
    assert dweight.tolist() == [[1, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("shape", [(3, 100, 70), (2, 33, 64), (1, 31, 129)])
def test_transposition_of_several_tiles(backend: ModuleType, shape: tuple[int, int, int]) -> None:
    check_case(backend, Case("transpose", str(shape), lambda rng: transposed(rng, shape)))
