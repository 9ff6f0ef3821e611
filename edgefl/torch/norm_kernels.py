"""A norm with its ReLU and maybe a 2x2 max pool on torch's tensors by the native kernels, without autograd and modules.

A norm alone is left to torch, which is as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgefl.torch.layer_selection import WHOLE, ActiveChannels, extent, spread
from edgefl.torch.native_tensors import Ids, array, ops


class Norm(NamedTuple):
    """The settings of a norm with its ReLU.

    groups    number of groups of channels that are normalised together in each sample. 0: each channel over the batch
    momentum  momentum of the running statistics, for a norm over the batch only
    relu6     whether ReLU6 follows in place of ReLU, for a norm over the batch only
    halved    whether a 2x2 max pool of stride 2 comes last
    """

    groups: int
    eps: float
    momentum: float = 0.0
    relu6: bool = False
    halved: bool = False


def rectified(
    x: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor] | None, norm: Norm
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x [batch, channels, ...] normalised, rectified and pooled.

    The mean and 1 / deviation follow for the backward pass.
    running  mean and variance, which move, or None for a norm by groups
    """
    y = torch.empty((*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2) if norm.halved else x.shape)
    statistics = (x.shape[0], norm.groups) if norm.groups else (x.shape[1],)
    mean, inv_std = torch.empty(statistics), torch.empty(statistics)
    given, written = (array(x), array(weight), array(bias)), (y.numpy(), mean.numpy(), inv_std.numpy())
    if running is None:
        ops().groupnorm_relu_forward(*given, *written, norm.groups, norm.eps)
    else:
        moved = (running[0].numpy(), running[1].numpy())
        ops().batchnorm_relu_forward(*given, *moved, *written, norm.eps, norm.momentum, norm.relu6)
    return y, mean, inv_std


def gradients(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    inv_std: Tensor,
    norm: Norm,
    active: ActiveChannels = WHOLE,
    needed: Ids = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx, dweight and dbias.

    They are 0 for frozen channels. dx is 0 in channels that are not `needed`, but a norm by groups computes whole
    groups.
    """
    dx = (torch.empty if needed is None else torch.zeros)(x.shape)
    rows = extent(active.outs, weight.shape[0])
    dw, db = np.empty(rows, np.float32), np.empty(rows, np.float32)
    given = (array(dy), array(x), array(weight), array(bias), mean.numpy(), inv_std.numpy())
    written = (dx.numpy(), dw, db)
    if norm.groups:
        groups = None if needed is None else np.unique(needed // (x.shape[1] // norm.groups)).astype(np.int32)
        ops().groupnorm_relu_backward(*given, *written, norm.groups, groups, active.outs)
    else:
        ops().batchnorm_relu_backward(*given, *written, needed, active.outs, norm.relu6)
    shape = tuple(weight.shape)
    return dx, spread(dw, shape, active.outs), spread(db, shape, active.outs)
