"""The trained part of one layer, and its gradients.

The gradients are compact as the kernels give them, or spread over the whole parameter as torch's optimizers need them.
neuron_selection.py chooses the active neurons.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgefl.torch.native_tensors import Array, Ids, array, ops


class Reach:
    """The reach of the gradient in one pass of a model, which the first layers set in every pass.

    is_whole  whether the gradient goes to the input of the model. Otherwise it goes as far as the selected neurons need
    """

    def __init__(self) -> None:
        self.is_whole = True


class ActiveChannels(NamedTuple):
    """Active outputs and inputs of a layer: sorted ids, or None for all.

    needed    inputs whose gradient a layer below reads, unless the input of the model has a gradient
    reach     reach of the gradient in the selected model. None: the gradient of every input is needed
    is_first  whether no layer below is trained
    """

    outs: Ids = None
    ins: Ids = None
    needed: Ids = None
    reach: Reach | None = None
    is_first: bool = False

    def needed_input_channels(self, x: Tensor) -> Ids:
        """Return the channels of the layer's input x whose gradient this pass needs, or None for all channels."""
        if self.reach is None:
            return None
        if self.is_first:
            self.reach.is_whole = x.requires_grad
        return None if self.reach.is_whole else self.needed


WHOLE = ActiveChannels()


def extent(ids: Ids, size: int) -> int:
    """Return the number of active neurons among `size` neurons."""
    return size if ids is None else len(ids)


def channels(x: Tensor, ids: Ids) -> Tensor:
    """Return a copy of x [batch, channels, ...] with these channels only, or x itself if `ids` is None."""
    if ids is None:
        return x
    taken = torch.empty(x.shape[0], len(ids), *x.shape[2:])
    ops().take_channels(array(x), ids, taken.numpy())
    return taken


def spread(compact: Array, shape: tuple[int, ...], outs: Ids, ins: Ids = None) -> Tensor:
    """Return a gradient of `shape` with these values in the active block and 0 elsewhere."""
    if outs is None and ins is None:
        return torch.from_numpy(compact)
    whole = torch.zeros(shape)
    ops().put_axes(_planes(whole.numpy(), shape), outs, ins, _planes(compact, compact.shape))
    return whole


def mask_of(parameter: Tensor, active: ActiveChannels) -> Tensor:
    """Return the mask of a parameter's active coordinates, in the parameter's shape or one that broadcasts to it."""
    ins = active.ins if parameter.dim() > 1 else None
    found = torch.ones(1, dtype=torch.bool, device=parameter.device)
    for axis, ids in enumerate((active.outs, ins)):
        if ids is not None:
            along = torch.zeros(parameter.shape[axis], dtype=torch.bool, device=parameter.device)
            along[torch.from_numpy(ids).long().to(parameter.device)] = True
            found = found & along.view(-1, *(1,) * (parameter.dim() - axis - 1))
    return found


def held(parameter: Tensor, active: ActiveChannels) -> Tensor:
    """Return the parameter so that torch trains only its active block, for layers that torch computes."""
    if active is WHOLE:
        return parameter
    return torch.where(mask_of(parameter, active), parameter, parameter.detach())


def held_or_none(parameter: Tensor | None, active: ActiveChannels) -> Tensor | None:
    """Return `held` of a bias, or None if there is no bias."""
    return None if parameter is None else held(parameter, active)


def _planes(values: Array, shape: tuple[int, ...]) -> Array:
    rows, cols, *rest = (*shape, 1, 1)[: max(len(shape), 2)]
    found: Array = np.reshape(values, (rows, cols, math.prod(rest)))
    return found
