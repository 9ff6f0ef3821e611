"""Initial values of single parameters, drawn with torch's default distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from edgefl.models.graph.operations import (
    Attention,
    BatchNorm,
    Embedding,
    GroupNorm,
    LayerNorm,
    MulParameter,
    Operation,
    PReLU,
    Recurrent,
    RMSNorm,
    Rotary,
    SelfAttention,
    Shape,
    WithParameter,
)

if TYPE_CHECKING:
    from edgefl.rng import Stream


def initial(op: Operation, name: str, shape: Shape, stream: Stream) -> np.ndarray:
    if isinstance(op, BatchNorm | GroupNorm | LayerNorm | RMSNorm):
        return np.full(shape, name in ("weight", "running_var"), dtype=np.float32)
    if isinstance(op, Attention | Rotary):  # no bias, and no rotation
        return np.full(shape, name == "cos", dtype=np.float32)
    if isinstance(op, PReLU):
        return np.full(shape, 0.25, dtype=np.float32)
    if isinstance(op, WithParameter):
        return np.full(shape, isinstance(op, MulParameter), dtype=np.float32)
    if isinstance(op, Embedding):
        return _normal(math.prod(shape), stream).reshape(shape)
    return uniform(shape, _bound(op, name), stream)


def uniform(shape: Shape, bound: float, stream: Stream) -> np.ndarray:
    return ((2.0 * stream.uniform(math.prod(shape)) - 1.0) * bound).astype(np.float32).reshape(shape)


def _bound(op: Operation, name: str) -> float:
    """Return the bound of the uniform distribution from which a parameter is drawn, as in torch."""
    if isinstance(op, Recurrent):
        return 1.0 / math.sqrt(op.hidden_size)
    shape = op.parameters()[op.main].shape
    if isinstance(op, SelfAttention):
        return math.sqrt(6.0 / sum(shape)) if name == op.main else 0.0
    return 1.0 / math.sqrt(math.prod(shape[1:]))


def _normal(count: int, stream: Stream) -> np.ndarray:
    """Return `count` normally distributed float32 numbers, made in pairs of uniform numbers (Box and Muller 1958)."""
    radius, turn = np.split(stream.uniform(2 * count), 2)
    return (np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * turn)).astype(np.float32)
