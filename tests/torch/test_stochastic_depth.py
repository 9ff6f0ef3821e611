"""Stochastic depth of a torch module as a dropout of whole examples, as timm and torchvision write it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.models.graph.operations import StochasticDepth
from edgefl.torch import TorchLearner, from_torch

from .differential import silent_loss

KEEP = 0.75
X = torch.randn(12, 2, 4, 4, generator=torch.Generator().manual_seed(8))


class Residual(nn.Module):
    """A residual block whose branch a mask multiplies in training. `scale` divides the mask."""

    def __init__(self, scale: float = KEEP, sizes: tuple[int, ...] = (1, 1, 1)) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.conv, self.head = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(32, 3)
        self.scale, self.sizes = scale, sizes

    def forward(self, x: Tensor) -> Any:
        branch = torch.tanh(self.conv(x))
        if self.training:
            mask = torch.empty((x.size(0), *self.sizes)).bernoulli_(KEEP)
            mask.div_(self.scale)  # in place, so that the mask itself changes
            branch = branch * mask
        return self.head((x + branch).flatten(1))


def test_a_mask_of_examples_is_stochastic_depth() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = from_torch(Residual(), X)
    (found,) = [node.op for node in model.graph.nodes if isinstance(node.op, StochasticDepth)]
    assert found == StochasticDepth(0.25)
    assert silent_loss(Residual(), X) == ""  # gradients over many passes have torch's mean and spread
    with torch.no_grad():
        expected = Residual().eval()(X).numpy()
    np.testing.assert_allclose(GraphLearner(model).predict(X.numpy()), expected, atol=2e-6)


def test_both_learners_drop_the_same_examples() -> None:
    model, batches = from_torch(Residual(), X), Listed([np.arange(12, dtype=np.int32)] * 3, Keyed(5))
    data = Samples(X.numpy(), np.arange(12, dtype=np.int32) % 3)
    native, by_torch = GraphLearner(model), TorchLearner(copy.deepcopy(model))
    for learner in (native, by_torch):
        learner.fit(data, batches, SGD(0.5))
    for name, value in native.read().items():
        np.testing.assert_allclose(by_torch.read()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            Residual(scale=1.0),
            "keeps examples with probability 0.75 and multiplies them by 1; expected 1.33333, so that",
        ),
        (Residual(sizes=(2, 1, 1)), "torch.bernoulli: random values; expected a Dropout, or a product with one"),
    ],
)
def test_other_masks_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(GraphError) as error:
        from_torch(module, X)
    assert message in str(error.value)
