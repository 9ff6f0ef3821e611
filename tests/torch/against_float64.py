"""A converted module against the user's own module in float64: outputs in evaluation, and gradients in training."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.learning import GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.torch import from_torch


def assert_as_in_float64(module: nn.Module, x: Tensor, name: str = "") -> Model:
    """Convert, and compare with torch in float64. Parameters that torch gives no gradient must have none.

    The module must drop nothing in training, because random numbers of torch and of edgefl differ.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = from_torch(module, x)
    wide = x if x.dtype == torch.int64 else x.double()
    inputs = x.numpy().astype(np.float32)
    expected = copy.deepcopy(module).double().eval()(wide).detach()
    found = GraphLearner(model).predict(inputs)
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-6, atol=2e-6, err_msg=name)
    twin, labels = copy.deepcopy(module).double(), torch.arange(len(x)) % expected.shape[1]
    F.cross_entropy(twin(wide), labels).backward()
    samples = Samples(inputs, labels.numpy().astype(np.int32))
    gradient = GraphLearner(model).gradient(samples, np.arange(len(x), dtype=np.int32))
    for key, value in twin.named_parameters():
        if value.grad is None:
            assert key not in gradient, (name, key)
            continue
        wanted = value.grad.numpy()
        limit = 1e-5 * max(1e-2, np.abs(wanted).max())
        np.testing.assert_allclose(
            gradient[key].reshape(wanted.shape), wanted, rtol=0, atol=limit, err_msg=f"{name} {key}"
        )
    return model
