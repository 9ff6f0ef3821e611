"""The learners that derive from one learner: with other heads, of the part after a cut, and of smaller graphs. Other
modules make them.

The last few learners are kept, so that rounds with as many classes or neurons reuse their schedules and programs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np

from edgefl.learning.learner import Array, Learner
from edgefl.models.graph import Graph, Params
from edgefl.models.graph.cuts import after
from edgefl.models.graph.heads import features_of, with_classes
from edgefl.models.neurons.model_spec import ModelSpec

HEADS_KEPT = 4  # learners with other heads, by number of classes
SUBS_KEPT = 5  # learners of smaller graphs: as many as tiers of clients, or widths of one client
RESTS_KEPT = 2  # learners of what follows a cut

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made", bound=Learner)
Make = Callable[[Graph, ModelSpec, Params], Made]


class DerivedLearners(Generic[Made]):
    """The learners that derive from a learner of this graph with these parameters.

    `make` returns a learner of another graph over the arrays that it is given. It is an argument of each call. If it
    were kept here, the learner would refer to itself, and only the garbage collector would free its memory.
    """

    def __init__(self, graph: Graph, spec: ModelSpec, params: Params) -> None:
        self._graph, self._spec, self._params = graph, spec, params
        self._heads: OrderedDict[int, Made] = OrderedDict()
        self._subs: OrderedDict[Graph, Made] = OrderedDict()
        self._rests: OrderedDict[str, Made] = OrderedDict()

    def with_head(self, classes: int, make: Make[Made]) -> Made:
        """Return a learner of the same body with a head of its own. The head is zero when it is made, and stays as it
        was left.
        """
        learner = self._heads.pop(classes, None)
        if learner is None:
            graph = with_classes(self._graph, classes)
            shapes = {name: graph.parameters()[name].shape for name in self._spec.head}
            own = {name: np.zeros(shape, self._params[name].dtype) for name, shape in shapes.items()}
            learner = make(graph, ModelSpec.of(graph), {**self._params, **own})
        return kept(self._heads, classes, learner, HEADS_KEPT)

    def head(self, make: Make[Made]) -> Made:
        """Return a learner of the head alone, on the same parameters."""
        return self.rest(features_of(self._graph), make)

    def rest(self, cut: str, make: Make[Made]) -> Made:
        """Return a learner of the part after a cut, on the same parameters."""
        learner = self._rests.pop(cut, None)
        if learner is None:
            graph = after(self._graph, cut)
            params = {name: self._params[name] for name in graph.parameters()}
            learner = make(graph, self._spec.part(graph), params)
        return kept(self._rests, cut, learner, RESTS_KEPT)

    def sharing(self) -> tuple[Made, ...]:
        """Return the kept learners that share parameters with this learner."""
        return (*self._heads.values(), *self._rests.values())

    def sub(self, graph: Graph, active: Mapping[str, Array], make: Make[Made]) -> Made:
        """Return a learner of a smaller graph, with a copy of these parameters."""
        learner = self._subs.pop(graph, None)
        if learner is None:
            learner = make(graph, ModelSpec.of(graph), dict(active))
        else:
            learner.write(active)
        return kept(self._subs, graph, learner, SUBS_KEPT)


def kept(learners: OrderedDict[Key, Made], key: Key, learner: Made, most: int) -> Made:
    """Keep the learner as the latest of at most `most` learners, and return it."""
    learners[key] = learner
    if len(learners) > most:
        learners.popitem(last=False)
    return learner
