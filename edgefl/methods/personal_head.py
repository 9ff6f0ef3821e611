"""A client's own model in methods with personal heads: the server's body under a head over the client's own classes.

This module is not a method. The head and its label map persist on the client and never leave it.

Source  FedPer (arXiv:1912.00818) and PFLEGO, section 3.1. ALGORITHMS 6 and 7.8
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.errors import DataError
from edgefl.learning.batches import RepeatedBatch
from edgefl.learning.learner import Array, Evaluation, Learner, Samples
from edgefl.learning.optimizers import Optimizer
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.option_checks import check
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec

HEAD = "head"  # name of W_i and its bias among the client's arrays
CLASSES = "classes"  # name of the label map among the private values: row r of the head is the r-th class

HeadInit = Literal["torch", "uniform"]


@dataclass(frozen=True)
class Personal:
    """The model of one client in one round.

    client_state  the client
    learner       learner of the body, and of a head with one output for each of the client's classes
    samples       the client's data with rows of the head as labels
    known         for each sample whether the head has a row for its class
    """

    client_state: ClientState
    learner: Learner
    samples: Samples
    known: NDArray[np.bool_]

    @property
    def model(self) -> OwnModel:
        """The model as it is evaluated."""
        return OwnModel(self.learner, self.samples, self.client_state.private[CLASSES], self.known)

    @staticmethod
    def of(client_state: ClientState, body: Mapping[str, Array], head_init: HeadInit, round: int = 0) -> Personal:
        """Return this body under the client's head. A client without a head over the classes that it trains on gets a
        new head.

        Test samples do not influence the head.

        head_init  'torch': the distribution of a new torch Linear. 'uniform': [0, 1), as in PFLEGO's released code
        round      round of the draw, where a method draws heads repeatedly
        Raises     DataError if the client trains on examples of a class that its head does not have, or the loss has no
                   labels
        """
        if not client_state.data.loss.has_labels:
            raise DataError(
                f"client {client_state.client} has loss={client_state.data.loss}; expected labels for its head"
            )
        own = np.unique(client_state.data.y[client_state.train]).tolist()
        classes = client_state.private.get(CLASSES) or own
        if new := sorted(set(own) - set(classes)):
            raise DataError(
                f"client {client_state.client} has examples of class {new[0]}; its head has classes {classes}"
            )
        learner = client_state.learner.with_head(len(classes))
        head = client_state.arrays.get(HEAD) or _draw(client_state, learner, head_init, round)
        learner.write({**body, **head})
        rows = np.zeros(max(int(client_state.data.y.max(initial=0)), classes[-1]) + 1, np.int32)
        rows[classes] = np.arange(len(classes))
        loss = client_state.data.loss.of_classes(classes)
        samples = Samples(
            client_state.data.x, rows[client_state.data.y], client_state.data.scale, client_state.data.shift, loss
        )
        client_state.private = {**client_state.private, CLASSES: classes}
        return Personal(client_state, learner, samples, np.isin(client_state.data.y, classes))

    def head_steps(self, count: int, optimizer: Optimizer, chunk: int) -> None:
        """Take `count` steps of the head over all training samples, on features that are computed once.

        chunk  examples per pass through the body
        """
        if count:
            features = self.learner.features(self.samples, self.client_state.train, chunk)
            everything = np.arange(len(features), dtype=np.int32)
            labelled = Samples(features, self.samples.y[self.client_state.train], loss=self.samples.loss)
            self.learner.head().fit(labelled, RepeatedBatch(everything, count), optimizer)

    def keep_head(self) -> None:
        """Keep the present head as the client's head."""
        head = {name: value.copy() for name, value in self.learner.read(self.client_state.spec.head).items()}
        self.client_state.arrays = {**self.client_state.arrays, HEAD: head}

    def evaluate(self) -> Evaluation:
        """Evaluate the model on the client's own test samples."""
        return self.model.evaluate(self.client_state.test)


def begin(initial: Params, task: Task) -> State:
    """Make the server's state before round 1: the body.

    Raises ValueError if the model has no head besides the body, or its outputs are not classes.
    """
    spec, loss = task.spec, task.loss
    check(loss.has_labels, "loss", loss, "cross-entropy, as a client's head has an output for each of its own classes")
    if not spec.head or not spec.body:
        raise ValueError(f"model with head {list(spec.head)} and body {list(spec.body)}; expected both")
    if frozen := [name for name in spec.head if name in spec.frozen]:
        raise ValueError(
            f"model with a frozen {frozen[0]} in its head; expected a head that each client can train, as with head "
            'among the patterns of --train (train="head,...")'
        )
    check_body(spec)
    return State({BODY: {name: initial[name] for name in spec.body}})


def check_body(spec: ModelSpec) -> None:
    """Raise ValueError if no parameter of the body is trained. The body is all that clients of such a method share."""
    if not set(spec.body) & set(spec.learned):
        raise ValueError(
            f"all {len(spec.body)} parameters of the model's body are frozen; expected one that is trained, as "
            "clients share the body: fedavg and fedspu share a head, and local trains a head at each client"
        )


def _draw(
    client_state: ClientState, learner: Learner, head_init: HeadInit, round: int
) -> dict[str, NDArray[np.float64]]:
    """Return a new head, as a function of the seed, the client and the round."""
    stream = rng.stream(client_state.seed, rng.HEAD, client_state.client, round)
    shapes = {name: value.shape for name, value in learner.read(client_state.spec.head).items()}
    drawn = {name: stream.uniform(int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()}
    if head_init == "uniform":
        return drawn
    bound = 1 / np.sqrt(max(shape[-1] for shape in shapes.values() if len(shape) > 1))  # 1 / sqrt(features)
    return {name: (2 * values - 1) * bound for name, values in drawn.items()}
