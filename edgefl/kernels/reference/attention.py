"""Attention of every position of a sequence to the other positions, by heads, in plain numpy.

Queries, keys and values [E, T] lie one below the other, and the channels of a head lie side by side. shares[b, h, j, i]
is the weight that the softmax gives to position j for position i.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array, Index


def attention_forward(qkv: Array, heads: int, causal: bool, y: Array, shares: Array | None = None) -> None:
    """Compute y[:, i] as the sum over j of shares[j, i] v[:, j].

    The shares are the softmax over j of k[:, j] . q[:, i] / sqrt(head size).

    causal  only positions j <= i count
    """
    q, k, v = _parts(qkv, heads)
    scores = np.einsum("bhcj,bhci->bhji", k, q) / math.sqrt(max(q.shape[2], 1))
    if causal:
        scores[:, :, np.tri(scores.shape[2], k=-1, dtype=bool)] = -np.inf
    found = np.exp(scores - scores.max(axis=2, keepdims=True, initial=-np.inf))
    found /= found.sum(axis=2, keepdims=True)
    y[...] = np.einsum("bhcj,bhji->bhci", v, found).reshape(y.shape)
    if shares is not None:
        shares[...] = found


def attention_backward(
    dy: Array, qkv: Array, shares: Array, heads: int, causal: bool, dqkv: Array, heads_needed: Index
) -> None:
    """Compute dqkv for the heads that are needed, and leave the others alone. Shares of positions that do not count are
    0.
    """
    (q, k, v), (dq, dk, dv) = _parts(qkv, heads), _parts(dqkv, heads)
    output_grad = dy.reshape(q.shape)
    for head in range(heads) if heads_needed is None else heads_needed:
        share, sent = shares[:, head], output_grad[:, head]
        dv[:, head] = np.einsum("bci,bji->bcj", sent, share)
        slope = np.einsum("bcj,bci->bji", v[:, head], sent)
        slope = share * (slope - (share * slope).sum(axis=1, keepdims=True)) / math.sqrt(max(q.shape[2], 1))
        dq[:, head] = np.einsum("bcj,bji->bci", k[:, head], slope)
        dk[:, head] = np.einsum("bci,bji->bcj", q[:, head], slope)


def _parts(qkv: Array, heads: int) -> tuple[Array, Array, Array]:
    """Return views of the queries, keys and values by head, each [B, heads, channels of a head, T]."""
    batch, channels, places = qkv.shape
    q, k, v = (qkv[:, part * channels // 3 : (part + 1) * channels // 3] for part in range(3))
    shape = (batch, heads, channels // 3 // heads, places)
    return q.reshape(shape), k.reshape(shape), v.reshape(shape)
