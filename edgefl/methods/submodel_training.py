"""The common part of methods whose clients train a smaller model: some neurons of the server's model, as a network of
their own.

This module is not a method. random_dropout.py and fjord.py choose the neurons and train them. Neurons that are left out
are absent: they cost no arithmetic and contribute nothing, as if their outputs were zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from edgefl.errors import PlanError
from edgefl.learning.learner import FitResult, Learner
from edgefl.methods.client_state import ClientState
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.option_checks import check_tiers
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients, tier
from edgefl.methods.task import State, Task
from edgefl.models.graph import Graph
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update


@dataclass(frozen=True)
class SubModels(FedAvg):
    """The settings of methods with smaller models.

    keep  p_k of the capacity tiers. The clients are split into equal clusters in id order. A client that declares a
          smaller share trains at most that share
    """

    takes_slices: ClassVar[bool] = False

    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tiers(self.keep)

    @abstractmethod
    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        """Server: make the plan of a client, with its neurons and their values."""

    def share(self, task: Task, client: int) -> float:
        """Server: return the largest share of the neurons that a client trains."""
        return min(tier(self.keep, client, task.clients), task.limits.get(client, 1.0))

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [self._plan(task, state, round, client) for client in chosen]

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, state, plan.round, plan.client)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the clients' next selections."""
        return [self._plan(task, state, round, client) for client in clients]

    def flops(self, graph: Graph, examples: int) -> float | None:
        return None  # the operations depend on the client's share

    def answer(
        self, client_state: ClientState, plan: Plan, fit: FitResult, payload: dict[str, Update], smaller: Learner
    ) -> Reply:
        """Client: return the reply of a round. `smaller` is the learner of the model that the client trained."""
        reply = Reply(
            plan.round,
            plan.client,
            payload=payload,
            selection_hash=planned(plan).hash(),
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )
        if self.eval_point == "none":
            return reply
        return tested(reply, smaller.evaluate(client_state.data, client_state.test))


def planned(plan: Plan) -> NeuronSet:
    """Return the neurons of a plan. Raises PlanError if the plan has no neurons."""
    if plan.selection is None:
        raise PlanError(f"plan of round {plan.round} without neurons; expected the neurons of the smaller model")
    return plan.selection


def cut(learner: Learner, neurons: NeuronSet) -> Learner:
    """Return a learner of these neurons alone, with a copy of their values, or `learner` itself if these are all
    neurons.
    """
    return learner if neurons.is_full else learner.sub(neurons)


def put_back(learner: Learner, smaller: Learner, neurons: NeuronSet) -> None:
    """Write the values of a learner that `cut` returned to their positions."""
    if smaller is not learner:
        learner.absorb(smaller, neurons)
