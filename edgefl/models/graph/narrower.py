"""The narrower form of an operation, which Graph.sub makes for each node. It has other settings and no parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    BatchNorm,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
    Operation,
    PReLU,
    Recurrent,
    RMSNorm,
    SelfAttention,
    Shape,
    WithParameter,
)

IdArray = npt.NDArray[np.int32]


def resized(op: Operation, rows: IdArray | None, cols: IdArray | None) -> Operation:
    """Return the operation with the kept indices of axis 0 (rows) and axis 1 (cols) of its weight.

    rows, cols  sorted ids. None: all indices are kept
    Raises  GraphError if a GroupNorm or grouped convolution would not keep equally many channels in each group.
    """
    if isinstance(op, Linear):
        return replace(op, in_features=_kept(cols, op.in_features), out_features=_kept(rows, op.out_features))
    if isinstance(op, Conv2d | Conv1d) and op.is_depthwise:
        kept = _kept(rows, op.out_channels)
        channels = kept // (op.out_channels // op.in_channels)
        return replace(op, in_channels=channels, out_channels=kept, groups=channels)
    if isinstance(op, ConvTranspose2d):
        if op.groups > 1:
            _check_groups(op, rows, op.in_channels, op.groups)
        return replace(op, in_channels=_kept(rows, op.in_channels), out_channels=_kept(cols, op.out_channels))
    if isinstance(op, Conv2d | Conv1d):
        _check_groups(op, rows, op.out_channels, op.groups)
        return replace(op, in_channels=_kept(cols, op.in_channels), out_channels=_kept(rows, op.out_channels))
    if isinstance(op, BatchNorm | RMSNorm):
        return replace(op, num_features=_kept(rows, op.num_features))
    if isinstance(op, LayerNorm):
        size, *rest = op.normalized_shape
        return replace(op, normalized_shape=(_kept(rows, size), *rest))
    if isinstance(op, Embedding):
        return replace(op, embedding_dim=_kept(cols, op.embedding_dim))
    if isinstance(op, WithParameter):
        return replace(op, shape=_kept_along(op.shape, rows, cols))
    if isinstance(op, PReLU):
        return replace(op, num_parameters=_kept(rows, op.num_parameters))
    if isinstance(op, Recurrent):
        hidden = _kept(rows, op.gates * op.hidden_size) // op.gates
        return replace(op, input_size=_kept(cols, op.input_size), hidden_size=hidden)
    if isinstance(op, SelfAttention):
        heads = _kept(rows, 3 * op.features) // (3 * op.head_dim)
        return replace(op, in_features=_kept(cols, op.in_features), num_heads=heads)
    return _normed(op, rows) if isinstance(op, GroupNorm) else op


def _normed(op: GroupNorm, rows: IdArray | None) -> GroupNorm:
    """Return a GroupNorm of the kept channels. An instance norm has a group for each of them."""
    kept = _kept(rows, op.num_channels)
    if op.num_groups == op.num_channels:
        return replace(op, num_groups=kept, num_channels=kept)
    _check_groups(op, rows, op.num_channels, op.num_groups)
    return replace(op, num_channels=kept)


def _kept_along(shape: Shape, rows: IdArray | None, cols: IdArray | None) -> Shape:
    """Return the extents of a parameter of which the given rows and columns are kept."""
    sizes = [_kept(ids, size) for ids, size in zip((rows, cols), shape, strict=False)]
    return (*sizes, *shape[2:])


def _kept(ids: IdArray | None, size: int) -> int:
    return size if ids is None else len(ids)


def _check_groups(op: Operation, rows: IdArray | None, channels: int, groups: int) -> None:
    """Raise GraphError unless each run of channels // groups channels keeps equally many channels."""
    if rows is None:
        return
    counts = np.bincount(rows // (channels // groups), minlength=groups)
    if (counts != counts[0]).any():
        raise GraphError(
            f"a sub-model would keep {counts.tolist()} channels of the {groups} groups of {op.title}; "
            "expected equally many channels in each group"
        )
