"""The participants of a simulation: the model, every client's samples, and the few learners that play all clients.

Not a method and not the round loop. A hundred clients' models are never alive at once: a client's model is read from
its file into one of the learners, and written back after training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgefl import rng
from edgefl.experiment.data.split import Split
from edgefl.experiment.data_meaning import NOTHING_SAID, DataMeaning
from edgefl.learning import Samples
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.model_spec import ModelSpec


@dataclass(frozen=True)
class Federation:
    """The model, the data, which client owns what, and the seed.

    common   a test set that no client owns, if any
    weights  what training starts from; None: parameters drawn by the seed
    columns  what the features of the samples are called; None: they have no names
    meaning  what of somebody's own data was taken for what
    """

    graph: Graph
    data: Samples
    clients: tuple[Split, ...]
    seed: int
    common: Samples | None = None
    weights: Params | None = None
    meaning: DataMeaning = NOTHING_SAID
    columns: tuple[str, ...] | None = None

    def initial(self) -> Params:
        """The parameters before round 1, in arrays of their own."""
        if self.weights is None:
            return self.graph.init(rng.stream(self.seed, rng.INIT))
        return {name: value.copy() for name, value in self.weights.items()}

    def with_weights(self) -> Federation:
        """The federation in which `weights` are the parameters before round 1, so that they are drawn only once."""
        return self if self.weights is not None else replace(self, weights=self.initial())

    def task(self, rounds: int, limits: Mapping[int, float] = {}) -> Task:
        """The agreement of server and clients before round 1.

        rounds  how many rounds the whole run has
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

    @property
    def decisions(self) -> int:
        """Of an example, those that are right or wrong; 0: none are."""
        return self.data.loss.decisions(self.graph.output_shape[0])

    @property
    def largest(self) -> int:
        """For training, of the client that has most."""
        return max(len(split.train) for split in self.clients)

    @property
    def examples(self) -> int:
        """The number of training samples of all clients together."""
        return sum(len(split.train) for split in self.clients)
