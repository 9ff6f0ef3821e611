"""Gather and scatter of blocks of parameters: csrc/cuda/parameters.cuh."""

from __future__ import annotations

from .launch import KernelArray, Launches, block_of, launch
from .structs import declare

declare(
    {
        "take_axes": "w values block:parameters::BlockOf",
        "put_axes": "w values block:parameters::BlockOf",
        "take_flat": "w ids values count",
        "put_flat": "w ids values count",
    }
)


def take_axes(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None, values: KernelArray) -> Launches:
    return [launch("take_axes", values.size, w=w, values=values, block=block_of(w, rows, cols))]


def put_axes(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None, values: KernelArray) -> Launches:
    return [launch("put_axes", values.size, w=w, values=values, block=block_of(w, rows, cols))]


def take_flat(w: KernelArray, ids: KernelArray, values: KernelArray) -> Launches:
    return [launch("take_flat", ids.size, w=w, ids=ids, values=values, count=ids.size)]


def put_flat(w: KernelArray, ids: KernelArray, values: KernelArray) -> Launches:
    return [launch("put_flat", ids.size, w=w, ids=ids, values=values, count=ids.size)]


def permute(values: KernelArray, order: KernelArray, permuted: KernelArray) -> Launches:
    return [launch("take_flat", order.size, w=values, ids=order, values=permuted, count=order.size)]
