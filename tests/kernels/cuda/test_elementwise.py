"""Sums, products and zeros of arrays that begin anywhere in the device's memory, four values at once where they may."""

from __future__ import annotations

import itertools
from types import ModuleType

import numpy as np
import pytest

from . import standin

SIZES = (1, 3, 4, 5, 1023, 1030)


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


def placed(backend: ModuleType, values: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """A block of 7s on the device, and the view of it that holds the values, `shift` of them from its beginning."""
    whole = backend.MEMORY.block((values.size + shift + 8) * values.itemsize).view(values.dtype)
    whole[:] = 7
    whole[shift : shift + values.size] = values
    backend.MEMORY.wrote(whole)
    return whole, whole[shift : shift + values.size]


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("shifts", itertools.product((0, 1, 4), repeat=3))
def test_pairs_of_values_that_begin_anywhere(backend: ModuleType, op: str, shifts: tuple[int, int, int]) -> None:
    for size in SIZES:
        a, b = np.random.default_rng(size).integers(-9, 9, (2, size)).astype(np.float32)
        (_, p), (_, q) = placed(backend, a, shifts[0]), placed(backend, b, shifts[1])
        whole, y = placed(backend, np.zeros(size, np.float32), shifts[2])
        getattr(backend, op)(p, q, y)
        backend.MEMORY.fetch(whole)
        assert np.array_equal(y, a + b if op == "add" else a * b)
        assert (whole[: shifts[2]] == 7).all()
        assert (whole[shifts[2] + size :] == 7).all()


@pytest.mark.parametrize("shift", [0, 1, 15, 16])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_zeros_that_begin_anywhere(backend: ModuleType, dtype: type, shift: int) -> None:
    for size in SIZES:
        whole, x = placed(backend, np.full(size, 9, dtype), shift)
        backend.fill_zero(x)
        backend.MEMORY.fetch(whole)
        assert not x.any()
        assert (whole[:shift] == 7).all()
        assert (whole[shift + size :] == 7).all()
