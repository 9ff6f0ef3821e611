"""Attention by heads, forward and backward: csrc/cuda/attention.cuh."""

from __future__ import annotations

import math

from .launch import (
    Field,
    Ids,
    KernelArray,
    Launches,
    PlannedLaunch,
    Scratch,
    StructValues,
    struct_values,
    tiled,
)
from .structs import declare

declare(
    {
        # A head has `size` channels.
        "attention::Lines": "heads:Ids all_heads size positions tiles is_causal scale:real",
        "attention::AttentionForwardArgs: attention_forward_{short,long} of attention_forward": (
            "qkv y shares lines:attention::Lines"
        ),
        "attention::AttentionBackwardArgs: attention_queries_{short,long} attention_keys of attention_backward": (
            # The totals [images, heads needed, positions] are sums of shares times the slopes of the shares.
            "dy qkv shares dqkv totals:float[]! lines:attention::Lines"
        ),
    }
)

OWN, SHORT, LONG = 32, 64, 256  # places of a block, and others that it holds at once in either form
FLOAT = 4  # bytes


def attention_forward(
    qkv: KernelArray, heads: int, causal: bool, y: KernelArray, shares: KernelArray | None
) -> Launches:
    lines = _lines(y, heads, causal, Ids(None, heads))
    return [_tiled("attention_forward" + _form(y), y, heads, qkv=qkv, y=y, shares=shares, lines=lines)]


def attention_backward(
    dy: KernelArray,
    qkv: KernelArray,
    shares: KernelArray,
    heads: int,
    causal: bool,
    dqkv: KernelArray,
    heads_needed: KernelArray | None,
) -> Launches:
    needed = Ids.of(heads_needed, heads)
    totals = Scratch(0, FLOAT * dy.shape[0] * needed.count * dy.shape[2])
    lines = _lines(dy, heads, causal, needed)
    return [
        _tiled(kernel, dy, needed.count, dy=dy, qkv=qkv, shares=shares, dqkv=dqkv, totals=totals, lines=lines)
        for kernel in ("attention_queries" + _form(dy), "attention_keys")
    ]


def _form(y: KernelArray) -> str:
    """Return the suffix of a kernel's form, which follows from the length T of the sequences.

    A block holds all positions at once if T is at most SHORT, or at most LONG in the long form. Longer sequences are
    held in parts of SHORT positions, one after another, so that more blocks are at work.
    """
    return "_long" if SHORT < y.shape[2] <= LONG else "_short"


def _lines(y: KernelArray, heads: int, causal: bool, needed: Ids) -> StructValues:
    size, places = y.shape[1] // heads, y.shape[2]
    extents = {"all_heads": heads, "size": size, "positions": places, "tiles": _tiles(places)}
    scale = 1 / math.sqrt(max(size, 1))
    return struct_values("attention::Lines", heads=needed, **extents, is_causal=causal, scale=scale)


def _tiles(places: int) -> int:
    return -(-places // OWN)


def _tiled(kernel: str, whole: KernelArray, heads: int, /, **fields: Field) -> PlannedLaunch:
    return tiled(kernel, (whole.shape[0] * heads * _tiles(whole.shape[2]), 1, 1), 128, **fields)
