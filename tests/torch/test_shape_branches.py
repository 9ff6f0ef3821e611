"""from_torch: branches on the shape of the input go the way of the data.

Other branches are refused with the condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning.predictor import Predictor
from edgefl.models.graph.operations import Linear
from edgefl.torch import from_torch
from tests.torch.traced import Forward, example


def lines(x: Tensor) -> Tensor:
    """A signal without channels gets one: no input of the test is one."""
    if x.dim() == 2:
        x = x.unsqueeze(1)
    return x


def of_size(x: Tensor, height: int) -> Tensor:
    _, channels, rows, columns = x.shape
    assert rows == columns == height, f"images of {rows} rows"
    torch._assert(channels == 2, f"{channels} channels")
    return x


def tail(x: Tensor) -> Tensor:
    if x.shape[1:] != (2, 6, 6) or x.size(-1) % 2 or x.ndim < 4:
        raise ValueError("images of 6 x 6 are expected")
    return x


@pytest.mark.parametrize("check", [lines, lambda x: of_size(x, 6), tail], ids=["dim", "assert", "raise"])
def test_a_branch_on_the_shape_of_an_input_goes_its_way(check: Callable[[Tensor], Tensor]) -> None:
    layer = nn.Conv2d(2, 3, 3)
    model = from_torch(Forward(lambda m, x: m.c(check(x)).mean((2, 3)), c=layer), example(2, 2, 6, 6))
    plain = from_torch(Forward(lambda m, x: m.c(x).mean((2, 3)), c=layer), example(2, 2, 6, 6))
    assert model.graph == plain.graph
    x = example(5, 2, 6, 6).numpy()  # another batch than that of the example
    np.testing.assert_array_equal(Predictor.of(model).predict(x), Predictor.of(plain).predict(x))


def asserted(m: Any, x: Tensor) -> Tensor:
    torch._assert(x.shape[2] == 5, "five rows")
    return m.c(x)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x: m.c(x) if x.size(0) > 5 else x, "forward ties itself to one batch size: take the batch size"),
        (lambda m, x: m.c(x) if x.shape == (2, 2, 6, 6) else x, "forward ties itself to one batch size"),
        (lambda m, x: m.c(x) if x.sum() > 0 else x, "forward branches on values of the input: give forward one way"),
        (lambda m, x: of_size(m.c(of_size(x, 7)), 7), "AssertionError: images of 6 rows"),
        (asserted, "AssertionError: five rows"),
    ],
)
def test_a_branch_that_the_shape_does_not_decide_is_named(step: Callable[[Any, Tensor], Tensor], message: str) -> None:
    with pytest.raises(GraphError) as error:
        from_torch(Forward(step, c=nn.Conv2d(2, 2, 1)), example(2, 2, 6, 6))
    assert "Forward cannot be exported by torch.export: " in str(error.value) and message in str(error.value)


def test_a_branch_on_the_shape_of_a_result_goes_its_way() -> None:
    module = Forward(lambda m, x: F.relu(m.c(x)) if m.c(x).size(2) > 3 else x, c=nn.Conv2d(2, 2, 1))
    assert [node.op.title for node in from_torch(module, example(2, 2, 6, 6)).graph.nodes] == ["Conv2d", "ReLU"]


@pytest.mark.parametrize(
    "end",
    [
        lambda y: y.squeeze(-1),
        lambda y: y.squeeze(),
        lambda y: torch.squeeze(y, dim=1),
        lambda y: y.view(-1),
        lambda y: y.reshape((-1,)),
        lambda y: y.flatten(),
    ],
)
def test_an_axis_of_one_output_may_be_left_out_at_the_end(end: Callable[[Tensor], Tensor]) -> None:
    layer = nn.Linear(4, 1)
    model = from_torch(Forward(lambda m, x: end(m.fc(x)), fc=layer), example(2, 4))
    assert [(node.name, node.op) for node in model.graph.nodes] == [("fc", Linear(4, 1))]
    assert model.graph.output_shape == (1,)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x: m.fc(x).squeeze(1) + 1, "torch.squeeze: sizes [batch] of [batch, 1]"),
        (lambda m, x: m.fc(x).view(2), "method 'view': sizes [2] of [batch, 1]"),  # torch.export refuses it, too
    ],
)
def test_elsewhere_the_axis_is_needed(step: Callable[[Any, Tensor], Tensor], message: str) -> None:
    with pytest.raises(GraphError) as error:
        from_torch(Forward(step, fc=nn.Linear(4, 1)), example(2, 4))
    assert message in str(error.value)
