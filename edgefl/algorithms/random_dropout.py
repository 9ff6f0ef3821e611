"""Random Dropout, or federated dropout: every client of a round trains a random smaller model, which is written back.

What a client trains are FedSPU's neurons of that round, and its payloads have FedSPU's bytes; but the other neurons do
not exist there, so that a step takes the arithmetic of the smaller model, and a client keeps nothing.

Source: Caldas et al., "Expanding the reach of federated learning by reducing client resource requirements" (2018);
ALGORITHMS 7.14. Theirs is one share for all clients; tiers are ours, as is `scale`. Their compression is not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl import rng
from edgefl.algorithms.base import MODEL, Local, OwnModel, Plan, Reply, State, Task
from edgefl.algorithms.submodels import SubModels, cut, planned, put_back
from edgefl.neurons.gather import take
from edgefl.neurons.selection import NeuronSet


@dataclass(frozen=True)
class RandomDropout(SubModels):
    """What is evaluated is the global model; after a refresh, a client's next sub-model."""

    name: ClassVar[str] = "random-dropout"

    # The server.

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        p = self.share(task, client)
        neurons = NeuronSet.draw(task.spec, p, rng.stream(task.seed, rng.NEURONS, client=client, round=round))
        payload = take(state.arrays[MODEL], task.spec, neurons)
        return Plan("train", round, client, neurons, {MODEL: payload}, {"keep": p})

    # The client.

    def train(self, local: Local, plan: Plan) -> Reply:
        neurons = planned(plan)
        local.learner.write(plan.payload[MODEL])
        smaller = cut(local.learner, neurons)
        fit = smaller.fit(local.data, self.batches(local, plan.round), self.local_optimizer(plan.round))
        put_back(local.learner, smaller, neurons)
        return self.answer(local, plan, fit, {MODEL: local.learner.take(neurons)}, smaller)

    @contextmanager
    def refreshed(self, local: Local, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        neurons = planned(plan)
        local.learner.write(plan.payload[MODEL])
        mine = OwnModel(cut(local.learner, neurons), local.data, neurons=neurons)
        yield self.refit(mine, local, epochs, self.batch)
