"""The torch layer: it converts torch modules to Graphs and back. No other room imports torch."""

from __future__ import annotations

try:
    import torch  # noqa: F401  (so that its absence is reported once, here)
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("edgefl.torch needs torch, which is not installed; pip install torch") from error

from edgefl.torch.conversion import convert, plain
from edgefl.torch.graph_module import GraphModule, to_torch
from edgefl.torch.neuron_selection import compact_gradients, keep_frozen, select
from edgefl.torch.sparse_layers import SparseConv2d, SparseLinear, sparsify
from edgefl.torch.torch_learner import TorchLearner
from edgefl.torch.trace import from_torch

__all__ = [
    "GraphModule",
    "SparseConv2d",
    "SparseLinear",
    "TorchLearner",
    "compact_gradients",
    "convert",
    "from_torch",
    "keep_frozen",
    "plain",
    "select",
    "sparsify",
    "to_torch",
]
