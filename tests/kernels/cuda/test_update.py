"""Sums of squares, which clipping asks for, in one block, in several and in more than add up in one go."""

from __future__ import annotations

import numpy as np
import pytest

from ..calls import check_case
from ..cases import Case, normal
from . import standin


@pytest.mark.parametrize("size", [4096, 4097, 9001, 257 * 4096 - 5])
def test_squares_of_several_blocks_are_added(size: int) -> None:
    case = Case("sum_squares", str(size), lambda rng: {"x": normal(rng, size), "total": np.array([0.5])})
    check_case(standin.backend(), case)
