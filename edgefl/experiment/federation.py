"""The participants of a simulation: the model, every client's samples, and the parameters before round 1.

Methods and the round loop are elsewhere. The models of a hundred clients are never in memory at once: a client's model
is read from its file into one of a few learners, and written back after training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgefl import rng
from edgefl.experiment.data.client_splits import training_counts
from edgefl.experiment.data.split import Split
from edgefl.experiment.data_meaning import NOTHING_SAID, DataMeaning
from edgefl.learning import Samples
from edgefl.learning.scores import place_score
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.model_spec import ModelSpec


@dataclass(frozen=True)
class Federation:
    """The model, the data, which client owns which samples, and the seed.

    held_out  samples of clients that never take part, whose ids follow those of `clients`
    common   a test set that no client owns, if any
    weights  the parameters that training starts from. None: the seed draws them
    columns  the names of the samples' features. None: they have no names
    meaning  how the user's own data were understood
    """

    graph: Graph
    data: Samples
    clients: Sequence[Split]
    seed: int
    common: Samples | None = None
    weights: Params | None = None
    meaning: DataMeaning = NOTHING_SAID
    columns: tuple[str, ...] | None = None
    held_out: Sequence[Split] = ()

    def initial(self) -> Params:
        """Return the parameters before round 1, in arrays that the caller may change. The frozen ones are read-only
        views of `weights`.
        """
        if self.weights is None:
            return self.graph.init(rng.stream(self.seed, rng.INIT))
        still = self.graph.frozen - self.graph.quantized_by_name.keys()  # a quantized array returns itself as its copy
        return {name: read_only(value) if name in still else value.copy() for name, value in self.weights.items()}

    def with_weights(self) -> Federation:
        """Return the federation with `weights` set to the parameters before round 1, so that they are drawn once."""
        return self if self.weights is not None else replace(self, weights=self.initial())

    def task(self, rounds: int, limits: Mapping[int, float] = {}) -> Task:
        """Return the agreement of server and clients before round 1.

        rounds  the number of rounds of the whole run
        limits  by client, the largest share of active neurons that the client is willing to train
        """
        return Task(
            ModelSpec.of(self.graph),
            len(self.clients),
            self.seed,
            limits,
            self.examples,
            rounds,
            loss=self.data.loss,
            outputs=self.graph.output_shape[0],
            graph=self.graph,
        )

    def samples_of(self, client: int) -> Split:
        """Return the samples of a client, also of a client that never takes part."""
        count = len(self.clients)
        return self.clients[client] if client < count else self.held_out[client - count]

    @property
    def decisions(self) -> int:
        """Return the number of decisions that an example has, or 0 if the loss has no right and wrong answers."""
        channels, places = self.data.loss.split(self.graph.output_shape)
        return self.data.loss.decisions(channels, math.prod(places))

    @property
    def place_score(self) -> str:
        """Return the name of the score of tokens or pixels (learning/scores.py), or "" where an example has one
        label.
        """
        return place_score(self.data.loss, self.graph.output_shape)

    @property
    def largest(self) -> int:
        """Return the number of training samples of the client that has most."""
        return max(map(int, training_counts(self.clients)))

    @property
    def examples(self) -> int:
        """Return the number of training samples of all clients together."""
        return sum(map(int, training_counts(self.clients)))
