"""The tensors that torch keeps of a forward pass for the backward pass, counted by torch's own hooks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgefl.models.graph import Model
from edgefl.torch.graph_module import to_torch


def saved_bytes_of(model: Model, x: NDArray[np.float32], y: NDArray[np.int32]) -> int:
    """Return `saved_bytes` of the model's torch form."""
    return saved_bytes(to_torch(model), torch.from_numpy(x), torch.from_numpy(y).long())


def saved_bytes(module: nn.Module, x: Tensor, y: Tensor) -> int:
    """Return the bytes that autograd holds between the forward and the backward pass of one training step.

    Each storage of saved tensors counts once, with its whole size. Parameters and buffers are not counted. The loss is
    the cross-entropy.
    x  float32 [batch, ...]
    y  int64 [batch]
    """
    return saved_by(module, lambda: functional.cross_entropy(module(x), y))


def saved_by(module: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Return the bytes that autograd holds for the backward pass after any forward pass of the module."""
    own = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers())}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()  # lives until backward, so its address is its own
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    total = sum(kept.values())
    del result
    return total
