"""Subsampling: FedAvg of updates of which a client sends a random part, drawn anew for every round and client.

The file has the server's half and the client's half. Clients train the whole model. The server and the client make
equal masks, so that no ids are sent. The part that is not sent counts as 0.

Source  Konecny et al., "Federated learning: Strategies for improving communication efficiency" (arXiv:1610.05492),
        section 2, and FedSpa, section 4. ALGORITHMS 7.13
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgefl import rng
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fine_tuning import FineTuning
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_weights
from edgefl.models.graph import Params
from edgefl.models.neurons.density import counts, weights
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.random_mask import pick
from edgefl.models.neurons.update import at_mask, changed_by


@dataclass(frozen=True)
class Subsampling(EarlyStopping, FineTuning):
    """The method Subsampling: w <- w - (1/S) sum of U_k at a random mask, over the S clients that reported.

    share    part of each weight's coordinates that a client sends
    rescale  whether the server divides what came by that part, so that the sum is right on average

    A mask leaves out changes of trained weights. Changes of biases, norms and running statistics are sent whole.
    A trained part without weights of two or more dimensions is refused.
    """

    name: ClassVar[str] = "subsampling"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    changes: ClassVar[tuple[str, ...]] = (MODEL,)

    share: float = 0.5
    rescale: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.share <= 1, "share", self.share, "0 < share <= 1")

    def mask(self, spec: ModelSpec, seed: int, client: int, round: int) -> Mask:
        """Return the mask of a client in a round, which server and client draw alike."""
        shapes, found = weights(spec), {}
        for number, (name, count) in enumerate(counts(shapes, self.share, "uniform").items()):
            if count < math.prod(shapes[name]):
                stream = rng.stream(seed, rng.MASK, client, round, extra=number)
                found[name] = pick(np.ones(shapes[name], np.bool_), count, stream)
        return Mask.of(spec, found)

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check_weights(task.spec)
        counts(weights(task.spec), self.share, "uniform")  # a check that there are weights
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        masks = {client: self.mask(task.spec, task.seed, client, round) for client in chosen}
        expects = {client: {MODEL: ExpectedPayload("masked", None, mask)} for client, mask in masks.items()}
        return [Plan("train", round, client, payload=payload, expects=expects[client]) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        total, count = accumulator.mean.total, max(len(accumulator.mean.clients), 1)
        old, moved = state.arrays[MODEL], {}  # frozen parameters do not change
        sent = counts(weights(task.spec), self.share, "uniform") if self.rescale else {}
        for name, change in total.items():
            factor = change.size / sent[name] if sent.get(name) else 1.0
            moved[name] = (old[name] - factor * change / count).astype(old[name].dtype)
        return State({MODEL: {**old, **moved}})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        sent = plan.payload[MODEL]
        client_state.learner.write(sent)
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        fit = client_state.learner.fit(client_state.data, batches, optimizer)
        mask = self.mask(client_state.spec, client_state.seed, client_state.client, plan.round)
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: at_mask(changed_by(sent, client_state.learner.take()), mask)},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )
