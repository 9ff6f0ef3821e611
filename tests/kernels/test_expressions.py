"""Programs of `evaluate` that every backend refuses, and results at the edges of functions."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from edgefl.models.graph.expression_gradient import forward

INF, NAN = np.inf, np.nan
EDGES = {
    "log(a)": ([0.0, -1.0, INF, 1.0, 1e-40, NAN], [-INF, NAN, INF, 0.0, np.log(1e-40), NAN]),
    "exp(a)": ([-INF, INF, 88.5, 89.0, 0.0, NAN], [0.0, INF, np.exp(88.5), INF, 1.0, NAN]),
    "maximum(a, 1)": ([INF, -INF, NAN, 2.0, 0.0, 1.0], [INF, 1.0, NAN, 2.0, 1.0, 1.0]),
    "minimum(1, a)": ([INF, -INF, NAN, 2.0, 0.0, 1.0], [1.0, -INF, NAN, 1.0, 0.0, 1.0]),
    "a < 1": ([INF, -INF, NAN, 2.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]),
    "a != 1": ([INF, -INF, NAN, 2.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
}
WRONG = {
    "an unknown step": [(18, 0, 0, 0)],
    "a step of itself": [(1, 0, 5, 0)],
    "an input that is not there": [(1, 0, 1, 0)],
    "a negative number": [(1, 0, -1, 0)],
    "a constant too many": [(0, 1, 0, 0)],
    "no step": [],
    "too many steps": [(17, 0, 0, 0)] * 60,
}


@pytest.mark.parametrize("text", EDGES)
def test_values_at_edges(backend: ModuleType, text: str) -> None:
    given, expected = EDGES[text]
    program, y = forward(text), np.empty(6, np.float32)
    x = np.array(given, np.float32)
    backend.evaluate(x, None, None, None, None, program.steps, program.constants, y)
    np.testing.assert_allclose(y, np.float32(expected), rtol=1e-6)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(backend: ModuleType, name: str) -> None:
    program, x = np.array(WRONG[name], np.int32).reshape(-1, 4), np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"program|argument"):
        backend.evaluate(x, None, None, None, None, program, np.zeros(1), x.copy())
