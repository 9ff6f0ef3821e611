"""Gather and scatter of blocks of parameters: csrc/cuda/parameters.cuh."""

from __future__ import annotations

from .launch import KernelArray, Launches, block_of, launch


def take_axes(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None, values: KernelArray) -> Launches:
    return [launch("take_axes", values.size, w, values, *block_of(w, rows, cols))]


def put_axes(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None, values: KernelArray) -> Launches:
    return [launch("put_axes", values.size, w, values, *block_of(w, rows, cols))]


def take_flat(w: KernelArray, ids: KernelArray, values: KernelArray) -> Launches:
    return [launch("take_flat", ids.size, w, ids, values, ids.size)]


def put_flat(w: KernelArray, ids: KernelArray, values: KernelArray) -> Launches:
    return [launch("put_flat", ids.size, w, ids, values, ids.size)]


def permute(values: KernelArray, order: KernelArray, permuted: KernelArray) -> Launches:
    return [launch("take_flat", order.size, values, order, permuted, order.size)]
