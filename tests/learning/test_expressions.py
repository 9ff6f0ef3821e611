"""Expressions and reductions by themselves: texts that are refused, values at the edges, and ties."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.errors import GraphError
from edgefl.kernels import reference
from edgefl.learning import GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.models.graph.expression import LONGEST, parsed
from edgefl.models.graph.expression_gradient import forward, gradient
from edgefl.models.graph.operations import Conv2d, Elementwise, Flatten, Reduce

from . import oracle
from .graphs import chain

REFUSED = {
    "b": "reads ['b']; expected a, b",
    "1 + 2": "reads []",
    "a.real": "expression 'a.real'",
    "a if a else 1": "expression 'a if a else 1'",
    "__import__('os')": "expression",
    "exp(a, a)": "expression 'exp(a, a)'",
    "a ** a": "a power whose exponent is no number",
    "a +": "expression 'a +'",
    "(" * 300 + "a" + ")" * 300: "expression",
    "a" + "+a" * LONGEST: f"expected at most {LONGEST}",
    "a + 1e999": "expression '1e309'",
    "a + -1e999": "expression '1e309'",
    "a + 1" + "0" * 400: "expected inputs a, b, c, d, numbers",
    "a + b\0": "expected inputs a, b, c, d, numbers",
    "+".join(f"a * {i}" for i in range(2, 40)): "expected at most 59",
    "+".join(f"sin(a * {i})" for i in range(2, 14)): "expected at most 59",  # 48 steps, and more of the gradient
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(GraphError) as error:
        Elementwise(text)
    assert REFUSED[text] in str(error.value)


def test_inputs_of_other_extents_are_refused() -> None:
    with pytest.raises(GraphError, match=r"shapes \(4, 3\), \(4, 2\); expected equal extents, or extents of 1"):
        Elementwise("a + b").output((4, 3), (4, 2))
    with pytest.raises(GraphError, match="shapes"):
        Elementwise("a + b").output((4, 3), (4,))
    with pytest.raises(GraphError, match=r"axes=\(2,\) of \(4, 3\); expected axes below 2"):
        Reduce("sum", (2,)).output((4, 3))
    with pytest.raises(GraphError, match="kind='product'; expected 'sum' or 'mean'"):
        Reduce("product", (0,))


def test_equal_parts_are_computed_once() -> None:
    assert len(parsed("(a + b) * (a + b)").steps) == 2
    assert len(forward("a ** 4").steps) == 3


@pytest.mark.parametrize(
    ("text", "x", "expected"),
    [
        ("maximum(a, 0)", [-1.0, 0.0, 2.0], [0.0, 1.0, 1.0]),  # as torch's clamp
        ("abs(a)", [-3.0, 0.0, 2.0], [-1.0, 0.0, 1.0]),
        ("where(a > 1, a * a, 3 * a)", [0.5, 1.0, 2.0], [3.0, 3.0, 4.0]),
        ("a ** -2", [1.0, 2.0, -1.0], [-2.0, -0.25, 2.0]),
    ],
)
def test_gradients_at_edges(text: str, x: list[float], expected: list[float]) -> None:
    program, found = gradient(text, 0), np.empty(3)
    reference.evaluate(np.array(x), None, None, None, np.ones(3), program.steps, program.constants, found)
    assert found.tolist() == expected


def test_equal_extremes_share_the_gradient() -> None:
    """Two equal values of a plane get half the gradient each, as by torch's amax."""
    graph = chain((2, 2, 2), ("conv", Conv2d(2, 2, (1, 1))), ("top", Reduce("max", (1, 2))), ("out", Flatten()))
    x = np.array([[[[1, 3], [3, 0]], [[5, 2], [4, 5]]]], np.float64)
    params = {"conv.weight": np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1), "conv.bias": np.zeros(2, np.float32)}
    learner = GraphLearner(Model(graph, params), "reference", np.float64)
    data = Samples(x, np.zeros(1, np.int32))
    found = learner.gradient(data, np.arange(1, dtype=np.int32))
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    np.testing.assert_allclose(found["conv.weight"], dense["conv.weight"], rtol=1e-12)
