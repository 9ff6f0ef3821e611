"""Masks of attention that do not depend on the input: none, causal, a window, or a bias of constants."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgefl.errors import GraphError

LEAST = -1e30
"""What a bias has where a key is left out. Numbers below it leave a key out, too."""


class AttentionMask(NamedTuple):
    """A mask of attention.

    bias   constant [masks, keys, queries], the name of a parameter, or None
    shape  shape of the bias
    """

    causal: bool = False
    window: int = 0
    bias: Tensor | str | None = None
    shape: tuple[int, ...] = ()


def mask_of(found: Tensor, batch: int, heads: int) -> AttentionMask:
    """Return the mask for a constant [..., queries, keys], which is a boolean tensor or is added to the scores.

    Raises  GraphError for a mask that differs from example to example, or that leaves out all keys of a query.
    """
    taken = found if found.dtype == torch.bool else found > LEAST
    values = torch.zeros(found.shape) if found.dtype == torch.bool else found.float()
    taken, values = (_by_head(each, batch, heads) for each in (taken, values))
    queries, keys = taken.shape[1:]
    if queries != keys:
        raise GraphError(f"attn_mask of {queries} queries and {keys} keys; expected as many queries as keys")
    if not taken.any(2).all():
        raise GraphError("attn_mask leaves out all keys of a query; expected at least one key for each query")
    if not values.masked_fill(~taken, 0).any() and (plain := _window(taken)) is not None:
        return plain
    bias = values.masked_fill(~taken, LEAST).transpose(1, 2).contiguous()
    return AttentionMask(bias=bias, shape=tuple(bias.shape))


def _by_head(mask: Tensor, batch: int, heads: int) -> Tensor:
    """Return a mask as [masks, queries, keys]. There is one mask if the masks of all heads are equal."""
    mask = mask.expand(*(1 for _ in range(4 - mask.dim())), *mask.shape)
    if len(mask) > 1 and not torch.equal(mask, mask[:1].expand_as(mask)):
        raise GraphError("attn_mask differs from example to example; expected a mask that all examples share")
    found = mask[0]
    is_same = len(found) != heads or torch.equal(found, found[:1].expand_as(found))
    return found[:1] if is_same else found


def _window(taken: Tensor) -> AttentionMask | None:
    """Return the mask without a bias, if it is one."""
    if taken.all():
        return AttentionMask()
    size = taken.shape[1]
    behind = torch.arange(size)[:, None] - torch.arange(size)
    window = int(taken[0, -1].sum())
    wanted = (behind >= 0) & (behind < window)
    if not bool((taken == wanted).all()):
        return None
    return AttentionMask(True, 0 if window == size else window)


def as_tensor(mask: Any) -> Tensor:
    """Return a known mask as a tensor."""
    if not isinstance(mask, Tensor):
        raise GraphError(f"attn_mask={mask!r}; expected a tensor")
    return mask
