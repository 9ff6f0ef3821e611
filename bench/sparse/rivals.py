"""SparseProp 0.1.14 beside us, where it is installed: its layers on the same masked weights, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import torch

from bench.sparse.layers import Layer
from edgefl.models.graph.operations import Conv2d

SAMPLES = 8  # samples of a batch: SparseProp's convolutions are silently wrong for other numbers


def missing() -> str | None:
    """Return why SparseProp is not measured, or None."""
    try:
        import sparseprop.modules  # noqa: F401
    except ImportError as error:
        return f"SparseProp is not measured: {error}; expected `pip install sparseprop==0.1.14` to have built it"
    return None


def sparseprop(layer: Layer) -> Callable[[], object]:
    """Return its forward and backward pass with both gradients."""
    from sparseprop import modules

    op, shape = layer.shape.op, layer.shape
    x = torch.from_numpy(layer.x).requires_grad_()
    dy, weight = torch.from_numpy(layer.dy), torch.from_numpy(layer.weight)
    if isinstance(op, Conv2d):
        module = torch.nn.Conv2d(*shape.weight[1::-1], op.kernel_size, op.stride, op.padding, bias=False)
    else:
        module = torch.nn.Linear(*shape.weight[::-1], bias=False)
    module.weight.data.copy_(weight)
    theirs = (modules.SparseConv2d if isinstance(op, Conv2d) else modules.SparseLinear).from_dense(module)

    def step() -> None:
        x.grad = theirs.W_val.grad = None
        theirs(x).backward(dy)

    return step
