"""A user's torch module as the model that a loss trains: a last layer that a loss of logits includes is taken off. The
module is read in trace.py and sequence_axes.py.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from torch import nn

from edgefl.errors import GraphError
from edgefl.learning.losses import BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.operations import Sigmoid
from edgefl.torch.sequence_axes import read_with


def model_of(module: nn.Module, inputs: NDArray[np.float32], axes: str, loss: Loss) -> Model:
    """The graph of the module, and its present weights, without a last layer that the loss has in itself.

    inputs  [N, ...] as data sets have them, at least one
    axes    what was said of their axes; empty: nothing
    Raises  GraphError if edgefl cannot take the module, or the loss and the module's end do not go together.
    """
    model, left_out = read_with(module, inputs, axes)
    if not isinstance(left_out, nn.Identity | nn.Flatten) and not isinstance(loss, CrossEntropy):
        end = type(left_out).__name__
        raise GraphError(f"the module ends in {end}, and loss={loss} would train what comes before it; expected "
                         f"loss=cross-entropy, which has it, or a module without {end} at the end")  # fmt: skip
    graph = model.graph
    if isinstance(graph.nodes[-1].op, Sigmoid) and isinstance(loss, BinaryCrossEntropy) and len(graph.nodes) > 1:
        warnings.warn(f"the Sigmoid at the end is left to loss={loss}: outputs are logits", stacklevel=5)
        return model._replace(graph=Graph(graph.input_shape, graph.nodes[:-1]))
    return model
