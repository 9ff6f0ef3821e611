"""Gather and scatter of blocks of parameters: csrc/cuda/parameters.cuh."""

from __future__ import annotations

from .launch import At, Launches, block_of, launch


def take_axes(w: At, rows: At | None, cols: At | None, values: At) -> Launches:
    return [launch("take_axes", values.size, w, values, *block_of(w, rows, cols))]


def put_axes(w: At, rows: At | None, cols: At | None, values: At) -> Launches:
    return [launch("put_axes", values.size, w, values, *block_of(w, rows, cols))]


def take_flat(w: At, ids: At, values: At) -> Launches:
    return [launch("take_flat", ids.size, w, ids, values, ids.size)]


def put_flat(w: At, ids: At, values: At) -> Launches:
    return [launch("put_flat", ids.size, w, ids, values, ids.size)]


def permute(values: At, order: At, permuted: At) -> Launches:
    return [launch("take_flat", order.size, values, order, permuted, order.size)]
