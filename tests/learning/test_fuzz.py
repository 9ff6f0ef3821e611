"""Random models against torch in float64: every instruction set, one thread and several, all settings of a fit.

`python -m tests fuzz --graphs 5000 --seed 1` runs more of them. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os

import pytest

from .fuzz import check

FIRST = int(os.environ.get("EDGEFL_FUZZ_SEED", "0"))
GRAPHS = int(os.environ.get("EDGEFL_FUZZ_GRAPHS", "300"))
AT_ONCE = 50


@pytest.mark.parametrize("first", range(FIRST, FIRST + GRAPHS, AT_ONCE))
def test_random_models_end_where_torch_does(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, FIRST + GRAPHS)):
        check(seed)
