"""The weighted mean of partial models, coordinate by coordinate. Methods decide what is averaged.

Source  FedSPU, Fig. 3. ALGORITHMS 0 (float64, ascending client id) and 1.2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgefl.methods.vector_sums import AT_ONCE, add_scaled
from edgefl.models.neurons.block_index import Axes, Flat
from edgefl.models.neurons.update import Array, Block, Update

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import ModelSpec


class Mean:
    """Float64 sums of `weight * value` and of `weight` for every coordinate of a model. Frozen parameters have no sums.

    Updates are added in ascending client order, so that the result does not depend on the order of arrival. `settle` is
    called once, after the last update is added and before `total` or `over` is read. The means of robust_mean.py need
    this call.

    clipped  number of values that were clipped before they were added. None: the mean does not clip
    factors  factors by which the weights of clients are multiplied
    """

    clipped: int | None = None

    def __init__(self, spec: ModelSpec) -> None:
        self.factors: Mapping[int, float] = {}
        self._total = {name: np.zeros(spec.params[name].shape) for name in spec.exchanged}
        self._weight: dict[str, Array] = {}  # of parameters whose coordinates may have different weights
        self._of_all: dict[str, float] = {}  # weight that every coordinate of a parameter has beside `_weight`
        self._waiting: dict[str, list[tuple[Array, float]]] = {}  # whole values and weights that are not yet in `total`
        self.clients: list[int] = []
        self.weights: list[float] = []

    @property
    def total(self) -> dict[str, Array]:
        """The sums of weight times value, for every coordinate of a parameter."""
        for name in list(self._waiting):
            self._add_waiting(name)
        return self._total

    @property
    def weight(self) -> dict[str, Array]:
        """The sums of weights, for every coordinate of a parameter."""
        for name in self._total:
            self.weight_of(name)
        return self._weight

    def weight_of(self, name: str) -> Array:
        """Return the sums of weights for every coordinate of one parameter, to which a caller may add."""
        if name not in self._weight:
            self._weight[name] = np.zeros(self._total[name].shape)
        if name in self._of_all:
            self._weight[name] += self._of_all.pop(name)
        return self._weight[name]

    def add(self, client: int, update: Update, weight: float) -> None:
        """Add one client's values. Whole values wait until there are as many as the kernel adds in one pass, or until
        `total` is read, so nobody may change them before.

        Raises ValueError if `client` is not above the last client added, or `weight` is not above 0.
        """
        weight = weight * self.factors.get(client, 1)
        self._count(client, weight)
        for name, block in update.blocks.items():
            if block.index is None:
                self._wait(name, block.values, weight)
            else:
                self._add_waiting(name)
                add_at(self._total[name], block.index, block.values.astype(np.float64) * weight)
            if block.index is None and name not in self._weight:
                self._of_all[name] = self._of_all.get(name, 0.0) + weight
            else:
                add_at(self.weight_of(name), block.index, weight)

    def settle(self) -> None:
        """Do nothing, because sums are complete when they are read."""

    def over(self, old: Params) -> Params:
        """Return the weighted mean where any client contributed, and `old` bit for bit elsewhere. `old` is
        not changed.
        """
        total = self.total
        return {name: self._mean(total[name], name, value) if name in total else value for name, value in old.items()}

    def _mean(self, total: Array, name: str, old: Array) -> Array:
        if name not in self._weight and (of_all := self._of_all.get(name)):
            return (total / of_all).astype(old.dtype)
        weight = self.weight_of(name)
        covered = weight > 0
        mean = np.divide(total, weight, out=np.zeros(old.shape), where=covered)
        return np.where(covered, mean.astype(old.dtype), old)

    def _wait(self, name: str, values: Array, weight: float) -> None:
        waiting = self._waiting.setdefault(name, [])
        waiting.append((values, weight))
        if len(waiting) == AT_ONCE:
            self._add_waiting(name)

    def _add_waiting(self, name: str) -> None:
        if terms := self._waiting.pop(name, None):
            add_scaled(self._total[name], terms)

    def _count(self, client: int, weight: float) -> None:
        if self.clients and client <= self.clients[-1]:
            raise ValueError(
                f"client={client}; expected an id above {self.clients[-1]}, the last client that was added"
            )
        if not weight > 0:
            raise ValueError(f"weight={weight} of client {client}; expected weight > 0")
        self.clients.append(client)
        self.weights.append(weight)


def values_at(array: Array, index: Axes | Flat | None) -> Array:
    """Return the values of a whole parameter at the index of a block. The result is a view if these are all values."""
    if index is None:
        return array
    return array.reshape(-1)[index.ids] if isinstance(index, Flat) else array[_axes(index)]


def put_at(array: Array, block: Block) -> None:
    """Write a block's values into the array at the block's coordinates. `array` is contiguous."""
    index = block.index
    if index is None:
        array[...] = block.values
    elif isinstance(index, Flat):
        array.reshape(-1)[index.ids] = block.values
    else:
        array[_axes(index)] = block.values


def add_at(array: Array, index: Axes | Flat | None, amount: Array | float) -> None:
    """Add an amount to the array at the coordinates of an index. Ids are unique, so a plain indexed addition is
    enough.
    """
    if index is None:
        array += amount
    elif isinstance(index, Flat):
        array.reshape(-1)[index.ids] += amount
    else:
        array[_axes(index)] += amount


def _axes(index: Axes) -> tuple[NDArray[np.int32] | slice, ...]:
    """Return the index in NumPy's form. Trailing axes are whole."""
    rows = None if index.rows is None else index.rows.expanded
    cols = None if index.cols is None else index.cols.expanded
    if rows is None:
        return (slice(None), cols) if cols is not None else (slice(None),)
    return (rows,) if cols is None else (rows[:, None], cols[None, :])
