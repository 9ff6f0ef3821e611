"""Attention by heads, forward and backward: csrc/cuda/attention.cuh."""

from __future__ import annotations

import math

from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, Scratch, tiled

OWN, SHORT, LONG = 32, 64, 256  # places of a block, and others that it holds at once in either form
FLOAT = 4  # bytes


def attention_forward(
    qkv: KernelArray, heads: int, causal: bool, y: KernelArray, shares: KernelArray | None
) -> Launches:
    sequence_fields = _sequence_fields(y, heads, causal, Ids(None, heads))
    return [_tiled("attention_forward" + _form(y), y, heads, qkv, y, shares, *sequence_fields)]


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
    fields = dy, qkv, shares, dqkv, totals, *_sequence_fields(dy, heads, causal, needed)
    return [_tiled(kernel, dy, needed.count, *fields) for kernel in ("attention_queries" + _form(dy), "attention_keys")]


def _form(y: KernelArray) -> str:
    """Return the suffix of a kernel's form, which follows from the length T of the sequences.

    A block holds all positions at once if T is at most SHORT, or at most LONG in the long form. Longer sequences are
    held in parts of SHORT positions, one after another, so that more blocks are at work.
    """
    return "_long" if SHORT < y.shape[2] <= LONG else "_short"


def _sequence_fields(y: KernelArray, heads: int, causal: bool, needed: Ids) -> tuple[Field, ...]:
    """Return the eight fields of the struct `Lines` of attention_tile.cuh."""
    size, places = y.shape[1] // heads, y.shape[2]
    return needed, heads, size, places, _tiles(places), causal, 1 / math.sqrt(max(size, 1))


def _tiles(places: int) -> int:
    return -(-places // OWN)


def _tiled(kernel: str, y: KernelArray, heads: int, *fields: Field) -> PlannedLaunch:
    return tiled(kernel, (y.shape[0] * heads * _tiles(y.shape[2]), 1, 1), *fields, threads=128)
