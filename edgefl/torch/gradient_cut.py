"""The option delta="cut" in torch: the gradient at the output of every layer is set to zero on frozen neurons.

This concerns every layer that has neurons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl.errors import SelectionError
from edgefl.learning.lowering.active_ids import RowsCols
from edgefl.learning.lowering.channel_sets import NONE
from edgefl.learning.lowering.gradient_needs import PRODUCTS, own_rows
from edgefl.models.graph.operations import SelfAttention
from edgefl.models.graph.planar import planar
from edgefl.torch.graph_module import GraphModule
from edgefl.torch.sequence_modules import SequenceGRU, SequenceLSTM, SequenceSelfAttention

Rows = NDArray[np.int32]


@contextmanager
def cut(module: nn.Module, blocks: Mapping[str, RowsCols]) -> Iterator[None]:
    """In the context, set gradients of activations to zero at neurons outside these blocks of trained parameters.

    This happens at the results of convolutions and Linear layers, at queries, keys and values, and at recurrent states
    after each step.
    Raises  SelectionError for a user's own module, because its channels may lie on any axis.
    """
    if not isinstance(module, GraphModule):
        raise SelectionError(
            f"delta=cut in {type(module).__name__}; expected delta=exact, or a learner of the graph only"
        )
    hooks, holding = [], []
    for node in planar(module.edgefl_graph).nodes:
        if not isinstance(node.op, PRODUCTS):
            continue
        is_joined = isinstance(node.op, SelfAttention)  # the cut is at queries, keys and values, not at the result
        rows = blocks.get(node.full_name(node.op.main), (NONE, NONE))[0] if is_joined else own_rows(node, blocks)
        if rows is None:
            continue
        layer = module.edgefl_layer(node)
        if isinstance(layer, SequenceSelfAttention | SequenceGRU | SequenceLSTM):
            layer.hold = partial(_held, rows, -1)
            holding.append(layer)
        else:
            hooks.append(layer.register_forward_hook(partial(_hooked, rows)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for layer in holding:
            layer.hold = None


def _hooked(rows: Rows, layer: nn.Module, inputs: object, output: Tensor) -> None:
    _held(rows, 1, output)


def _held(rows: Rows, axis: int, output: Tensor) -> Tensor:
    """Return the output, whose gradient will be zero along this axis except at `rows`."""
    if output.requires_grad:
        output.register_hook(partial(_only, torch.tensor(rows, dtype=torch.int64, device=output.device), axis))
    return output


def _only(rows: Tensor, axis: int, output_grad: Tensor) -> Tensor:
    return torch.zeros_like(output_grad).index_copy(axis, rows, output_grad.index_select(axis, rows))
