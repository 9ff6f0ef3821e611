"""Attention whose heads may share keys and values, with a bias, a window and dropout of the shares, in plain numpy.

Queries, keys and values lie one below the other, and the channels of a head lie side by side. A run of heads / kv_heads
heads of queries has one head of keys and values. csrc/edgefl.h defines the stream of the dropout (efl_sdpa).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or
from .dropout import words


def sdpa_forward(
    qkv: Array, bias: Array | None, state: Array | None, heads: int, kv_heads: int, masks: int, causal: bool,
    window: int, scale: float, node: int, threshold: int, keep_scale: float, y: Array, lse: Array | None = None,
) -> None:  # fmt: skip
    """Compute attention whose heads may share keys and values, with a bias, a window and dropout of the shares.

    bias    [masks, keys, queries], added to the scores
    state   of the dropout: key, step and first example, or None
    lse     of each query the logarithm of the sum of exp(scores)
    """
    q, k, v = shared_parts(qkv, heads, kv_heads)
    scores = masked_scores(q, k, bias, causal, window, scale)
    top = scores.max(axis=2, keepdims=True, initial=-np.inf)
    found = np.exp(scores - top)
    total = found.sum(axis=2, keepdims=True)
    kept = kept_factors(found, state, node, threshold, keep_scale)
    y[...] = np.einsum("bhcj,bhji->bhci", v, found / total * kept).reshape(y.shape)
    if lse is not None:
        lse[...] = (top + np.log(total))[:, :, 0]


def sdpa_backward(
    dy: Array, qkv: Array, bias: Array | None, state: Array | None, lse: Array, heads: int, kv_heads: int, masks: int,
    causal: bool, window: int, scale: float, node: int, threshold: int, keep_scale: float, dqkv: Array,
    dbias: Array | None, kv_needed: Index,
) -> None:  # fmt: skip
    """Compute dqkv for the needed heads of keys and values, and dbias. The shares are computed again."""
    q, k, v = shared_parts(qkv, heads, kv_heads)
    shares = np.exp(masked_scores(q, k, bias, causal, window, scale) - lse[:, :, None])
    kept = kept_factors(shares, state, node, threshold, keep_scale)
    sent = dy.reshape(q.shape)
    slopes = np.einsum("bhcj,bhci->bhji", v, sent) * kept
    slopes = shares * (slopes - (shares * slopes).sum(axis=2, keepdims=True))
    if dbias is not None:
        dbias[...] = slopes.sum(axis=0).reshape(masks, heads // masks, *slopes.shape[2:]).sum(axis=1)
    slopes *= scale
    size, chosen = q.shape[2], all_or(kv_needed, kv_heads)
    dq, dk, dv = (_by_head(part, size) for part in _split(dqkv, heads, kv_heads))
    group = (chosen[:, None] * (heads // kv_heads) + np.arange(heads // kv_heads)).ravel()
    dq[:, group] = np.einsum("bhcj,bhji->bhci", k, slopes)[:, group]
    for part, values in (
        (dk, np.einsum("bhci,bhji->bhcj", q, slopes)),
        (dv, np.einsum("bhci,bhji->bhcj", sent, shares * kept)),
    ):
        shared = values.reshape(len(values), kv_heads, heads // kv_heads, size, values.shape[3]).sum(axis=2)
        part[:, chosen] = shared[:, chosen]


def _split(qkv: Array, heads: int, kv_heads: int) -> list[Array]:
    """Return views of the channels of queries, keys and values."""
    size = qkv.shape[1] // (heads + 2 * kv_heads)
    return [
        qkv[:, start * size : end * size]
        for start, end in ((0, heads), (heads, heads + kv_heads), (heads + kv_heads, heads + 2 * kv_heads))
    ]


def _by_head(part: Array, size: int) -> Array:
    """Return [B, heads, size, T] of one part. It is a view, because the heads' channels lie side by side."""
    batch, channels, places = part.shape
    found = part.view()
    found.shape = (batch, channels // size if size else 0, size, places)
    return found


def shared_parts(qkv: Array, heads: int, kv_heads: int) -> tuple[Array, Array, Array]:
    """Return queries, keys and values, each [B, heads, size, T]. Keys and values are repeated for their heads."""
    q, k, v = (_by_head(part, qkv.shape[1] // (heads + 2 * kv_heads)) for part in _split(qkv, heads, kv_heads))
    return q, k.repeat(heads // kv_heads, axis=1), v.repeat(heads // kv_heads, axis=1)


def masked_scores(q: Array, k: Array, bias: Array | None, causal: bool, window: int, scale: float) -> Array:
    """Return the scores [B, heads, keys, queries], which are -inf where a key does not count."""
    scores: Array = np.einsum("bhcj,bhci->bhji", k, q) * q.dtype.type(scale)
    if bias is not None:
        scores += bias.repeat(q.shape[1] // len(bias), axis=0)
    ahead = np.arange(q.shape[3])[:, None] - np.arange(q.shape[3])  # key minus query
    if causal:
        scores[:, :, ahead > 0] = -np.inf
    if window:
        scores[:, :, ahead <= -window] = -np.inf
    return scores


def kept_factors(shares: Array, state: Array | None, node: int, threshold: int, keep_scale: float) -> Array:
    """Return what each share is multiplied by."""
    if state is None:
        return np.ones_like(shares)
    found = words(state, node, len(shares), shares[0].size if len(shares) else 0) >= threshold
    return np.where(found, shares.dtype.type(keep_scale), shares.dtype.type(0)).reshape(shares.shape)
