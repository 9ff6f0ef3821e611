"""A quick check that no reply of a round can be beyond the bound of change_bound.py, so that exact lengths are needed
only where a reply comes near the bound.

A rough length is computed in float32, and its error is far below MARGIN. The exact lengths decide whatever the rough
lengths leave open, so the check changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgefl.methods.plan import Reply
from edgefl.methods.rounds.change_bound import Lengths, Old, bounds, roots, square_sum
from edgefl.methods.weighted_mean import values_at
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Array, Block, Update

MARGIN = 0.05  # relative error of a rough length, and of a bound that follows from rough lengths, at most
CACHED = 2**15  # float32 values of one part of a sum, 128 kB. float32 adds up their squares with an error below 1 %
SMALLEST_SUM, LARGEST_SUM = 1e-25, 1e25  # sums of squares that float32 holds well, with every single square


def surely_within(replies: Mapping[int, Reply], factor: float, old: Old, spec: ModelSpec) -> bool:
    """Return whether every reply is within the bound for certain. False: the exact lengths have to be computed.

    replies, factor, old, spec  as in change_bound.py
    """
    found = [_rough_lengths(reply, old, spec) for reply in replies.values()]
    most = bounds(found, factor, old, spec)
    return all(
        length * (1 + MARGIN) <= most[payload][name] * (1 - MARGIN)
        for each in found
        for payload, parameters in each.items()
        for name, length in parameters.items()
        if name in most[payload]
    )


def _rough_lengths(reply: Reply, old: Old, spec: ModelSpec) -> Lengths:
    return {name: _of_update(update, old.get(name, {}), spec) for name, update in reply.payload.items()}


def _of_update(update: Update, old: Params, spec: ModelSpec) -> dict[str, float]:
    squares = {name: _rough_square_sum(block, old.get(name)) for name, block in update.blocks.items()}
    return roots(squares, {name: block.values.size for name, block in update.blocks.items()}, spec)


def _rough_square_sum(block: Block, old: Array | None) -> float:
    """Return the sum of squares of a block's changes, roughly, or exactly where float32 does not hold it well."""
    values = block.values.reshape(-1)
    before = None if old is None else values_at(old, block.index).reshape(-1)
    if values.dtype != np.float32 or (before is not None and before.dtype != np.float32):
        return square_sum(block, old)
    found = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, values.size, CACHED):
            part = values[start : start + CACHED]
            if before is not None:
                part = part - before[start : start + CACHED]
            found += float(np.dot(part, part))
    return found if SMALLEST_SUM < found < LARGEST_SUM else square_sum(block, old)
