"""The order in which a graph reads channels and steps, as its operations show it, and what follows for data."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.axis_reading import arranged, fitting_axes, fitting_order, read_order
from edgefl.models.graph.operations import LSTM, Conv1d, Flatten, Linear, MaxPool1d, Operation, Permute, ReLU


def graph(shape: tuple[int, ...], *ops: Operation) -> Graph:
    names = [INPUT, *(f"n{at}" for at in range(len(ops)))]
    return Graph(shape, tuple(Node(names[at + 1], op, (names[at],)) for at, op in enumerate(ops)))


def conv(channels: int, steps: int) -> Graph:
    return graph((channels, steps), Conv1d(channels, 2, 1))


def lstm(steps: int, channels: int) -> Graph:
    return graph((steps, channels), Permute((1, 0)), LSTM(channels, 2))


def flat(first: int, second: int) -> Graph:
    return graph((first, second), Flatten(), Linear(first * second, 2))


ORDERS = {
    "a convolution": (conv(3, 5), "NCL"),
    "a recurrent layer of turned axes": (lstm(5, 3), "NLC"),
    "a recurrent layer as graphs have it": (graph((3, 5), LSTM(3, 2)), "NCL"),
    "what is done to each value says nothing": (graph((5, 3), ReLU(), Permute((1, 0)), MaxPool1d(5, 5)), "NLC"),
    "turned twice": (graph((3, 5), Permute((1, 0)), Permute((1, 0)), Conv1d(3, 2, 1)), "NCL"),
    "turned to what they were": (graph((3, 5), Permute((0, 1)), Conv1d(3, 2, 1)), "NCL"),
    "a layer at each place of turned axes": (graph((5, 3), Permute((1, 0)), Linear(3, 4), LSTM(4, 2)), "NLC"),
    "features alone": (flat(3, 5), ""),
    "planes": (graph((1, 3, 5), Flatten(), Linear(15, 2)), ""),
}


@pytest.mark.parametrize(("model", "order"), ORDERS.values(), ids=ORDERS)
def test_the_first_operation_along_steps_shows_the_order(model: Graph, order: str) -> None:
    assert read_order(model) == order


FITTING = {  # examples of 3 channels and 5 steps
    "conv": (conv(3, 5), "NCL"),
    "conv of 5 channels": (conv(5, 3), ""),
    "lstm of 3 features": (lstm(5, 3), "NLC"),
    "lstm of 5 features takes them as they are": (lstm(3, 5), "NCL"),
    "any order, as they are": (flat(3, 5), "NCL"),
    "any order, exchanged": (flat(5, 3), "NLC"),
    "others": (conv(4, 5), ""),
}


@pytest.mark.parametrize(("model", "order"), FITTING.values(), ids=FITTING)
def test_examples_are_given_in_the_order_that_a_graph_reads(model: Graph, order: str) -> None:
    assert fitting_order(model, (3, 5)) == order


def test_of_as_many_channels_as_steps_the_operations_decide() -> None:
    assert [fitting_order(each, (4, 4)) for each in (conv(4, 4), lstm(4, 4), flat(4, 4))] == ["NCL", "NLC", "NCL"]


@pytest.mark.parametrize(
    ("model", "shape", "axes", "other"),
    [
        (conv(3, 5), (5, 3), "NCL", "NLC"),
        (conv(3, 5), (5, 3), "NLC", "NCL"),
        (conv(3, 5), (1, 5, 3), "", "NLC"),
        (lstm(5, 3), (1, 3, 5), "", "NCL"),
        (conv(3, 5), (4, 3), "NCL", ""),
        (conv(3, 5), (5, 3), "", ""),
        (graph((1, 3, 5), Flatten(), Linear(15, 2)), (1, 5, 3), "", ""),
    ],
)
def test_the_axes_that_would_fit_are_named(model: Graph, shape: tuple[int, ...], axes: str, other: str) -> None:
    assert fitting_axes(model, shape, axes) == other


def test_values_move_with_their_axes() -> None:
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)  # 3 channels of 5 steps
    assert arranged(x, conv(3, 5), "NCL") is x
    assert arranged(x, conv(3, 5), "") is x
    assert arranged(x, lstm(5, 3), "NCL")[1, 4].tolist() == [19, 24, 29]  # the last step of the second example
    assert arranged(x.transpose(0, 2, 1), conv(3, 5), "NLC")[1, 2].tolist() == [25, 26, 27, 28, 29]
    images = np.zeros((2, 6, 5, 3), np.float32)
    assert arranged(images, graph((3, 6, 5), Flatten(), Linear(90, 2)), "NHWC").shape == (2, 3, 6, 5)
