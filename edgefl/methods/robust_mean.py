"""Means that a few clients with false values cannot move: the trimmed mean and the median of every coordinate over the
clients that trained it.

Every client counts once, because a claimed number of samples has no weight here. So the result is an estimate of
another quantity than the weighted mean. Where clients' data differ, it is biased towards the values of most clients: a
coordinate that matters to few clients hardly moves. These means need all replies at once, which the server holds anyway
until the round closes. In addition they need the values of one parameter at a time, 4 bytes for each client and
coordinate.

The rule for coordinates that fewer than 2K + 1 clients trained is ours.

Source  Yin et al. (ICML 2018), Definitions 1 and 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgefl.methods.weighted_mean import Mean, add_at, put_at
from edgefl.models.neurons.update import Array, Block, Update

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import ModelSpec


class TrimmedMean(Mean):
    """The mean of every coordinate without its `trim` largest and smallest values. With `trim` None it is the median,
    which leaves out all but the middle value or the middle two.

    Where fewer than 2 trim + 1 clients (for the median, fewer than 3) trained a coordinate, its old value stands for
    each missing client. So up to `trim` clients with false values (one, under the median) never take a value out of the
    range of the honest values and the old value. A coordinate that at most `trim` clients trained does not change.

    Methods read `total` like a sum. It is the mean times the weights of the clients that trained the coordinate.
    """

    def __init__(self, spec: ModelSpec, old: Params, trim: int | None) -> None:
        """Start without replies. `old` has the values before the round. A parameter that it lacks was 0, as for
        changes.
        """
        super().__init__(spec)
        self._old, self._trim = old, trim
        self._updates: list[Update] = []

    def add(self, client: int, update: Update, weight: float) -> None:
        """Add one client's values, which are kept until `settle`. Raises ValueError as Mean does."""
        self._count(client, weight)
        self._updates.append(update)
        for name, block in update.blocks.items():
            add_at(self.weight_of(name), block.index, weight)

    def settle(self) -> None:
        """Compute the means, one parameter at a time."""
        for name, weight in self.weight.items():
            if blocks := [update.blocks[name] for update in self._updates if name in update.blocks]:
                old = self._old.get(name, np.zeros(weight.shape, np.float32))
                self.total[name] = weight * center(blocks, old, self._trim)


def center(blocks: list[Block], old: Array, trim: int | None) -> NDArray[np.float64]:
    """Return the trimmed mean, or the median, of every coordinate of one parameter (see TrimmedMean).

    `old` has the parameter's values before the round.
    """
    rows = max(len(blocks), 3 if trim is None else 2 * trim + 1)
    values = np.full((rows, *old.shape), np.nan, np.result_type(*(block.values for block in blocks)))
    for row, block in zip(values, blocks, strict=False):
        put_at(row, block)
    values.sort(axis=0)  # NaN comes last, and no client sent NaN
    trained = rows - np.isnan(values).sum(axis=0)
    return _middle(*_filled(values, trained, old, trim), trim)


def _filled(values: Array, trained: Array, old: Array, trim: int | None) -> tuple[Array, Array]:
    """Return sorted values and their number per coordinate, with the old value in place of missing clients."""
    least = 3 if trim is None else 2 * trim + 1
    if (trained < least).any():
        for row in range(least):
            np.copyto(values[row], old, where=trained <= row)
        values.sort(axis=0)
    return values, np.maximum(trained, least)


def _middle(values: Array, count: Array, trim: int | None) -> NDArray[np.float64]:
    """Return the float64 mean of the sorted values without `trim` at either end, or of the middle one or two values."""
    first = (count - 1) // 2 if trim is None else trim
    total = np.zeros(values.shape[1:])
    for row, each in enumerate(values):
        kept = (row >= first) & (row < count - first)
        np.add(total, each, out=total, where=kept)
    return total / (count - 2 * first)
