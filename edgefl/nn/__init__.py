"""The torch layer: torch modules to Graphs and back. Only this package imports torch."""

from __future__ import annotations

try:
    import torch  # noqa: F401  (so that its absence is reported once, here)
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("edgefl.nn needs torch, which is not installed; pip install torch") from error

from edgefl.nn.conversion import convert, plain
from edgefl.nn.learner import TorchLearner
from edgefl.nn.module import GraphModule, to_torch
from edgefl.nn.selecting import compact_gradients, keep_frozen, select
from edgefl.nn.sparse import SparseConv2d, SparseLinear, sparsify
from edgefl.nn.trace import from_torch

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
