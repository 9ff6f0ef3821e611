"""Dropout and the count of its steps: csrc/cuda/dropout.cuh."""

from __future__ import annotations

from .launch import Fields, Ids, KernelArray, Launches, chosen, launch
from .structs import declare

declare(
    {
        "DropoutArgs: dropout_{all,chosen} of dropout": "x state y chosen:Chosen batch node threshold whole scale",
        "count_step": "state",
    }
)

TILE_VALUES, TILE_BLOCKS = 64, 16


def dropout(
    x: KernelArray,
    state: KernelArray,
    node: int,
    threshold: int,
    scale: float,
    whole: bool,
    y: KernelArray,
    channels: KernelArray | None,
) -> Launches:
    batch, size = x.shape[0], x.shape[1] * x.inner
    taken, settings = chosen(channels, x), {"node": node, "threshold": threshold, "whole": whole, "scale": scale}
    fields: Fields = {"x": x, "state": state, "y": y, "chosen": taken, "batch": batch, **settings}
    if channels is None and not whole:
        return [launch("dropout_all", batch * -(-size // TILE_VALUES) * TILE_BLOCKS, **fields)]
    count = Ids.of(channels, x.shape[1]).count
    return [launch("dropout_chosen", batch * count * x.inner, **fields)]


def count_step(state: KernelArray) -> Launches:
    return [launch("count_step", 1, 1, state=state)]
