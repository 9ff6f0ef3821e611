"""One client of a federation: its learner, its data, its private state, and the batches that it trains on.

A method decides what to do with them (algorithm.py). deployment and simulation have the files that keep the private
state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.learning.batches import Keyed, Minibatches
from edgefl.learning.learner import Evaluation, Learner, Samples
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update


@dataclass
class ClientState:
    """One client: its learner, its data and its private state. This class serves `simulate` and devices.

    client      id of the client
    seed, spec  seed of the run, specification of the model
    learner     learner that holds the model
    data        all samples that the client can read. train, validation and test are int32 indices into them
    private     plain JSON values that persist between rounds and never leave the device
    arrays      named sets of arrays that persist between rounds in addition to the model. `model` is not one of the
                names
    before      the server's values before the round, from which `taken` measures changes. None: it measures none
    """

    client: int
    seed: int
    spec: ModelSpec
    learner: Learner
    data: Samples
    train: NDArray[np.int32]
    validation: NDArray[np.int32]
    test: NDArray[np.int32]
    private: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Params] = field(default_factory=dict)
    before: Params | None = None

    def taken(self) -> Update:
        """Return a copy of the whole model for the server."""
        return self.learner.take() if self.before is None else self.learner.take(since=self.before)


class OwnModel(NamedTuple):
    """A client's model as its method evaluates it.

    learner  learner that holds the model
    samples  samples of the client, whose labels are outputs of this model
    classes  class that each output stands for. None: the classes of the data, in order
    known    for each sample whether its class is among `classes`. None: every class is
    neurons  neurons of the common model that this model has. None: all neurons
    """

    learner: Learner
    samples: Samples
    classes: Sequence[int] | None = None
    known: NDArray[np.bool_] | None = None
    neurons: NeuronSet | None = None

    def evaluate(self, index: NDArray[np.int32]) -> Evaluation:
        """Evaluate the model on the samples `index`. A sample of a class without an output counts as wrong, with the
        loss of a guess among the classes and one more.
        """
        fitting = index if self.known is None else index[self.known[index]]
        if len(fitting) == len(index):
            return self.learner.evaluate(self.samples, index)
        found = self.learner.evaluate(self.samples, fitting) if len(fitting) else Evaluation(0.0, 0, 0)
        lost = (len(index) - len(fitting)) * math.log(1 + len(self.classes or ()))
        return Evaluation(found.loss_sum + lost, found.correct, len(index))


def passes(examples: int, epochs: int, batch: int) -> tuple[int, int]:
    """Return the effort of passes over `examples` samples in batches: the steps, and the samples seen."""
    return epochs * -(-examples // batch), epochs * examples


def minibatches(client_state: ClientState, round: int, epochs: int, batch: int, first: int = 0) -> Minibatches:
    """Return the client's batches for `epochs` shuffled passes, from pass number `first` of the round on.

    The batches carry the position of the dropout stream. The last, smaller batch of a pass is kept.
    """

    def order(epoch: int) -> NDArray[np.int64]:
        stream = rng.stream(client_state.seed, rng.DATA, client=client_state.client, round=round, extra=first + epoch)
        return stream.permutation(len(client_state.train))

    def dropout() -> Keyed:
        steps, _ = passes(len(client_state.train), first, batch)
        return Keyed(dropout_key(client_state, round), steps)

    return Minibatches(client_state.train, order, epochs, batch, dropout)


def dropout_key(client_state: ClientState, round: int) -> int:
    """Return the key of the random stream that drops values in a client's training of a round."""
    return rng.stream(client_state.seed, rng.DROPOUT, client=client_state.client, round=round).key()


def evaluate(client_state: ClientState) -> Evaluation:
    """Evaluate the model that the learner holds on the client's own test samples."""
    return client_state.learner.evaluate(client_state.data, client_state.test)
