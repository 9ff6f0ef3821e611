"""A user's torch module as the model that a loss trains. A last layer that the loss includes is taken off.

trace.py and sequence_axes.py read the module.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from edgefl.errors import GraphError
from edgefl.learning.losses import BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Sigmoid
from edgefl.torch.sequence_axes import read_with


def model_of(module: nn.Module, inputs: NDArray[np.float32], axes: str, loss: Loss) -> Model:
    """Return the graph of the module with its present weights, without a last layer that the loss includes.

    inputs  [N, ...] as data sets have them, at least one sample
    axes    name of their axes, empty if they were not named
    loss    loss that trains the model
    Raises  GraphError if edgefl cannot take the module, or if the loss does not go together with the end of the module.
    """
    model, left_out = read_with(module, inputs, axes)
    if not isinstance(left_out, nn.Identity | nn.Flatten) and not isinstance(loss, CrossEntropy):
        end = type(left_out).__name__
        raise GraphError(f"the module ends in {end}, and loss={loss} would train the layers before it; expected "
                         f"loss=cross-entropy, which includes it, or a module without {end} at the end")  # fmt: skip
    graph = model.graph
    if isinstance(graph.nodes[-1].op, Sigmoid) and isinstance(loss, BinaryCrossEntropy) and len(graph.nodes) > 1:
        warnings.warn(f"the Sigmoid at the end is left to loss={loss}: outputs are logits", stacklevel=5)
        return model._replace(graph=replace(graph, nodes=graph.nodes[:-1]))
    return model
