"""NestedLearners: the learners of nested models, where a smaller model has the first neurons of a larger one.

The models have their values in common. This module is not a method (fjord.py), and it does not decide which model steps
when.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edgefl.learning.learner import Array, Learner
from edgefl.methods.submodel_training import cut
from edgefl.methods.weighted_mean import values_at
from edgefl.models.graph import Params
from edgefl.models.graph.operations import Kind, Shape
from edgefl.models.neurons.block_index import Axes, Flat, JoinedIds
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update, values

STATISTICS: tuple[Kind, ...] = ("stat",)


class NestedLearners:
    """The learners of a client's widths. They share the learned values, and each has running statistics of its own.

    Each learner holds a copy of the values. The copy of the last step is the newest, and a change of width carries it
    to the next learner. Frozen values are equal in all copies, and a change of width does not touch them. A change of
    width reads and writes the values of two models. For comparison, a step takes three multiplications for each value
    and example.
    """

    def __init__(self, whole: Learner, neurons: Mapping[float, NeuronSet]) -> None:
        """Begin with a learner of all neurons.

        whole    learner of all neurons, with the values of the neurons of the largest width
        neurons  neurons of each width, the largest width last
        """
        self.widths, self.own = tuple(neurons), max(neurons)
        self._whole, self._neurons = whole, neurons
        self._positions = {width: _positions(whole.take(each)) for width, each in neurons.items()}
        self._statistics: dict[float, Params] = {width: {} for width in neurons}
        self._learners: dict[float, Learner] = {}
        self._now: float | None = None

    def begin(self, width: float, statistics: Update) -> None:
        """Begin a width with the running statistics of an update, which has at least the statistics of its neurons."""
        self._whole.write(statistics)
        self._statistics[width] = values(self._whole.take(self._neurons[width], kinds=STATISTICS))

    def at(self, width: float) -> Learner:
        """Return the learner of a width, with the newest values. Ask again before a learner of another width steps."""
        if width != self._now:
            self.settle()
            if width not in self._learners:
                self._learners[width] = cut(self._whole, self._neurons[width])
            self._fill(self._learners[width], width)
            self._now = width
        return self._learners[width]

    def _fill(self, learner: Learner, width: float) -> None:
        positions, is_whole = self._positions[width], learner is self._whole
        whole = self._whole.read(() if is_whole else positions.keys())
        newest = {name: _corner(value, positions[name].where) for name, value in whole.items()}
        learner.write(newest | self._statistics[width])

    def settle(self) -> None:
        """Write the newest learned values into the learner of all neurons."""
        if self._now is None:
            return
        learner = self._learners[self._now]
        found = learner.read(self._positions[self._now].keys())
        self._statistics[self._now] = {name: found[name].copy() for name in self._statistics[self._now]}
        if learner is not self._whole:
            learned = {name: value for name, value in found.items() if name not in self._statistics[self._now]}
            self._whole.write(self._placed(self._now, learned))
        self._now = None

    def statistics(self, width: float) -> Update:
        """Return the running statistics of a width, at its neurons."""
        return self._placed(width, self._statistics[width])

    def _placed(self, width: float, found: Mapping[str, Array]) -> Update:
        return Update({name: Block(*self._positions[width][name], value) for name, value in found.items()})


class ParameterSlice(NamedTuple):
    """The position of a width's values in a parameter of this shape."""

    shape: Shape
    where: Axes | Flat | None


def _positions(update: Update) -> dict[str, ParameterSlice]:
    return {name: ParameterSlice(block.shape, block.index) for name, block in update.blocks.items()}


def _corner(value: Array, index: Axes | Flat | None) -> Array:
    """Return the values of the first neurons.

    This is a view, except for an axis of several parts, where the values are not a corner of the array.
    """
    axes = (index.rows, index.cols)[: value.ndim] if isinstance(index, Axes) else ()
    if any(isinstance(ids, JoinedIds) for ids in axes):
        return values_at(value, index)
    return value[tuple(slice(None if ids is None else ids.count) for ids in axes)]
