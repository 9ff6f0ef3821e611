"""The reference of training, which is torch in float64, has the right gradients where torch itself does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import BatchNorm2d, Flatten, FlattenPlaces, GlobalAvgPool, Operation
from tests.learning import oracle


def gradient(flat: Operation, rows: int, columns: int) -> np.ndarray:
    """Return the gradient of the weight of a batch norm, beneath the mean of its planes."""
    nodes = (
        Node("bn", BatchNorm2d(3), (INPUT,)),
        Node("mean", GlobalAvgPool(), ("bn",)),
        Node("flat", flat, ("mean",)),
    )
    graph, draw = Graph((3, rows, columns), nodes), np.random.default_rng(1)
    values = {name: np.ones(param.shape) for name, param in graph.parameters().items()}
    params = oracle.to_torch(values)
    x, dy = torch.tensor(draw.standard_normal((7, 3, rows, columns))), torch.tensor(draw.standard_normal((7, 3)))
    (oracle.logits(graph, params, x, training=True) * dy).sum().backward()
    return np.asarray(params["bn.weight"].grad)


@pytest.mark.parametrize(("rows", "columns"), [(5, 1), (1, 5), (5, 2)])
def test_flattened_means_give_one_gradient_in_either_order_of_axes(rows: int, columns: int) -> None:
    """torch 2.13 gives another gradient for planes of one column, if the axis of their means was moved."""
    assert gradient(FlattenPlaces(), rows, columns) == pytest.approx(gradient(Flatten(), rows, columns), abs=1e-12)
