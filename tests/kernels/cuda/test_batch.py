"""Batches picked by indices that lie on the device, where nobody has checked them: nothing outside is read."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from . import standin

INDEX = np.array([1, -1, 3, 2**31 - 1, 0, -(2**31), 2], np.int32)
INSIDE = [True, False, False, False, True, False, True]


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_row_outside_is_nan(backend: ModuleType, dtype: type) -> None:
    src = np.arange(15).reshape(3, 5).astype(dtype)
    out = np.zeros((len(INDEX), 5), np.float32)
    backend.gather_rows(src, backend.MEMORY.hold(INDEX), 1.0, 2.0, out)
    assert np.array_equal(out[INSIDE], src[INDEX[INSIDE]] + np.float32(2))
    assert np.isnan(out[np.logical_not(INSIDE)]).all()


def test_label_outside_is_no_class(backend: ModuleType) -> None:
    out = np.zeros(len(INDEX), np.int32)
    backend.gather_labels(np.array([5, 6, 7], np.int32), backend.MEMORY.hold(INDEX), out)
    assert out.tolist() == [6, -1, -1, -1, 5, -1, 7]
