"""Which part of one layer is trained, and its gradients: compact as the kernels give them, spread over the whole
parameter as torch's optimizers want them. Which neurons are active is said in selecting.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgefl.nn.native_tensors import Array, Ids, array, ops


class Active(NamedTuple):
    """Active outputs and inputs of a layer: sorted ids, or None for all.

    needed  inputs whose gradient something below reads
    """

    outs: Ids = None
    ins: Ids = None
    needed: Ids = None


WHOLE = Active()


def extent(ids: Ids, size: int) -> int:
    """How many of `size` they are."""
    return size if ids is None else len(ids)


def channels(x: Tensor, ids: Ids) -> Tensor:
    """x [batch, channels, ...] with these channels alone, copied; x itself if they are all."""
    if ids is None:
        return x
    taken = torch.empty(x.shape[0], len(ids), *x.shape[2:])
    ops().take_channels(array(x), ids, taken.numpy())
    return taken


def spread(compact: Array, shape: tuple[int, ...], outs: Ids, ins: Ids = None) -> Tensor:
    """A gradient of `shape` with these values in the active block and 0 elsewhere."""
    if outs is None and ins is None:
        return torch.from_numpy(compact)
    whole = torch.zeros(shape)
    ops().put_axes(_planes(whole.numpy(), shape), outs, ins, _planes(compact, compact.shape))
    return whole


def held(parameter: Tensor, active: Active, has_inputs: bool = True) -> Tensor:
    """The parameter, of which torch trains the active block alone: for layers that torch computes."""
    ins = active.ins if has_inputs else None
    if active.outs is None and ins is None:
        return parameter
    is_active = torch.zeros(parameter.shape, dtype=torch.bool, device=parameter.device)
    rows = slice(None) if active.outs is None else torch.from_numpy(active.outs).long().to(parameter.device)
    if ins is None:
        is_active[rows] = True
    else:
        cols = torch.from_numpy(ins).long().to(parameter.device)
        is_active[rows if isinstance(rows, slice) else rows[:, None], cols] = True
    return torch.where(is_active, parameter, parameter.detach())


def held_or_none(parameter: Tensor | None, active: Active) -> Tensor | None:
    """A bias or None."""
    return None if parameter is None else held(parameter, active, has_inputs=False)


def _planes(values: Array, shape: tuple[int, ...]) -> Array:
    rows, cols, *rest = (*shape, 1, 1)[: max(len(shape), 2)]
    found: Array = np.reshape(values, (rows, cols, math.prod(rest)))
    return found
