"""The weighted mean of whole numbers: the sum of a round is the same whatever the order of replies, workers or shards.

A reply adds its changes as whole numbers (fixed_point.py) times the client's weight, a whole number, too. Float64 sums,
which weighted_mean.py has, depend on the order of their terms. So they are taken in the order of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgefl.methods.fixed_point import BY_KIND, RoundingName, Whole, rounded_changes
from edgefl.methods.weighted_mean import Mean, add_at

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.block_index import Axes, Flat
    from edgefl.models.neurons.model_spec import ModelSpec
    from edgefl.models.neurons.update import Update

LARGEST_SUM = 2**62  # of int64, with room


class ExactMean(Mean):
    """The weighted mean of changes as whole numbers. Replies may be added in any order, each client once.

    `total` and `weight` are read after `settle`. `total` is weight x (old value + mean change), as methods expect it.

    sums     sum of weight x whole change, by parameter
    counts   sum of the weights of the clients that trained a coordinate, by parameter
    clipped  number of values that were clipped, of all replies
    """

    def __init__(self, spec: ModelSpec, old: Params, name: RoundingName) -> None:
        """Start without replies. `old` has the values before the round. A parameter that it lacks was 0."""
        super().__init__(spec)
        self._old, self._name = old, name
        self._kinds = {parameter: spec.params[parameter].kind for parameter in self.total}
        self._declared: dict[int, int] = {}
        self.clipped: int = 0
        self.sums: dict[str, Whole] = {each: np.zeros(total.shape, np.int64) for each, total in self.total.items()}
        self.counts: dict[str, Whole] = {each: np.zeros(total.shape, np.int64) for each, total in self.total.items()}

    def add(self, client: int, update: Update, weight: float) -> None:
        """Add one client's values.

        Raises ValueError if the client was added before, if `weight` is not a whole number above 0, or if the weights
        of the round are so large that a sum could overflow.
        """
        whole = self._count_whole(client, weight)
        found = rounded_changes(update, self._old, self._kinds, self._name, client)
        self.clipped += found.clipped
        for name, block in update.blocks.items():
            add_at(self.sums[name], block.index, found.values[name] * whole)
            add_at(self.counts[name], block.index, whole)

    def declared(self, client: int) -> int:
        """Return the weight with which a client was added."""
        return self._declared[client]

    def add_sum(self, parameter: str, index: Axes | Flat | None, sums: Whole) -> None:
        """Add the sum of weight x whole change over clients of which each was added without a change.

        sums  int64, in the shape of the values at the index
        """
        add_at(self.sums[parameter], index, sums)

    def merge(self, other: ExactMean) -> None:
        """Add the sums of other replies to the same round. Raises ValueError for a client that both have."""
        for client, weight in other._declared.items():
            self._count_whole(client, weight)
        self.clipped += other.clipped
        for name in self.sums:
            self.sums[name] += other.sums[name]
            self.counts[name] += other.counts[name]

    def settle(self) -> None:
        """Turn the sums into the totals and weights that methods read."""
        self.clients = sorted(self._declared)
        self.weights = [self._declared[client] for client in self.clients]
        weight = self.weight
        for name, sums in self.sums.items():
            weight[name] = self.counts[name].astype(np.float64)
            old = self._old[name].astype(np.float64) if name in self._old else 0.0
            self.total[name] = weight[name] * old + sums * BY_KIND[self._kinds[name]].step

    def _count_whole(self, client: int, weight: float) -> int:
        if client in self._declared:
            raise ValueError(f"client={client} a second time; expected each client once in a round")
        if not (weight > 0 and float(weight).is_integer()):
            raise ValueError(f"weight={weight} of client {client}; expected a whole number above 0")
        most = max(fixed.most for fixed in BY_KIND.values()) * (sum(self._declared.values()) + int(weight))
        if most > LARGEST_SUM:
            raise ValueError(f"weight={weight} of client {client}; expected weights whose sums fit into 62 bits")
        self._declared[client] = int(weight)
        return int(weight)
