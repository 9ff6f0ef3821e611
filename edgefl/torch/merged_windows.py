"""Windows of an exported graph: forward merges them with the batch, [batch * windows, steps, features].

A layer of single steps does not see them: a call has the windows apart, [batch, windows, steps, features]. Attention
takes the windows as further heads (aten_attention.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from edgefl.torch.code_lines import packet

BY_FEATURES = frozenset(
    ("linear", "layer_norm", "relu", "gelu", "silu", "tanh", "sigmoid", "hardswish", "dropout", "add", "mul", "add_",
     "alias", "contiguous", "clone")
)  # fmt: skip
"""Layers and functions whose results at a step follow from the features of this step alone."""


def times(size: Any) -> int:
    """Return how often the batch size is in a size, such as 9 for 9 windows of each example, and 0 for a number."""
    if not isinstance(size, torch.SymInt):
        return 0
    factor, _ = size.node.expr.as_coeff_Mul()
    return int(factor) if factor.is_Integer and factor > 0 else 1


def windows_of(node: fx.Node) -> int:
    """Return the number of windows that the first axis of a node has for each example. 0 stands for another axis."""
    value = node.meta.get("val")
    return times(value.shape[0]) if isinstance(value, torch.Tensor) and value.dim() else 0


def is_by_features(node: fx.Node, windows: dict[fx.Node, int]) -> bool:
    """Return whether a node computes each step alone from nodes with merged windows, constants and parameters."""
    read = [each for each in node.all_input_nodes if windows_of(each)]
    return packet(node) in BY_FEATURES and all(each in windows for each in read) and node.meta["val"].dim() == 3


def is_read(node: fx.Node, moving: frozenset[str]) -> bool:
    """Return whether another operation than a move reads a node."""
    return any(packet(user) not in moving for user in node.users)
