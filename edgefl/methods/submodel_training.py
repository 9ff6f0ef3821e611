"""The common part of methods whose clients train a smaller model: some neurons of the server's model, as a network of
their own.

This module is not a method. A method chooses the neurons, as in fedmp.py. Neurons that are left out are absent: they
cost no arithmetic and contribute nothing, as if their outputs were zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.errors import PlanError
from edgefl.learning.learner import FitResult, Learner
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.option_checks import check_tiers
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients, tier
from edgefl.methods.task import MODEL, State, Task
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
    trains_parts: ClassVar[bool] = True

    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tiers(self.keep)

    @abstractmethod
    def client_plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        """Server: make the plan of a client, with its neurons and their values.

        A method that trains its neurons by `train` defines this verb and no other.
        """

    def share(self, task: Task, client: int) -> float:
        """Server: return the largest share of the neurons that a client trains."""
        return min(tier(self.keep, client, task.clients), task.limits.get(client, 1.0))

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return [self.client_plan(task, state, round, client) for client in self.chosen(task, round)]

    def chosen(self, task: Task, round: int) -> list[int]:
        """Server: return the clients of a round, in ascending order."""
        return sample_clients(task, range(task.clients), self.per_round, round)

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self.client_plan(task, state, plan.round, plan.client)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the clients' next selections."""
        return [self.client_plan(task, state, round, client) for client in clients]

    def flops(self, graph: Graph, examples: int) -> float | None:
        return None  # the operations depend on the client's share

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        """Train the neurons of the plan as a smaller model, and send their values."""
        smaller = self.smaller(client_state, plan)
        fit = smaller.fit(client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        put_back(client_state.learner, smaller, planned(plan))
        payload = {MODEL: client_state.learner.take(planned(plan))}
        return self.answer(client_state, plan, fit, payload, smaller)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        mine = OwnModel(self.smaller(client_state, plan), client_state.data, neurons=planned(plan))
        yield self.refit(mine, client_state, epochs, self.batch)

    @contextmanager
    def judged(self, client_state: ClientState, plan: Plan) -> Iterator[OwnModel]:
        """Yield the smaller model of the plan, whose values the whole model has got back."""
        yield OwnModel(cut(client_state.learner, planned(plan)), client_state.data, neurons=planned(plan))

    def smaller(self, client_state: ClientState, plan: Plan) -> Learner:
        """Return the learner of a plan's neurons, with the values that the plan brings."""
        client_state.learner.write(plan.payload[MODEL])
        return cut(client_state.learner, planned(plan))

    def answer(
        self, client_state: ClientState, plan: Plan, fit: FitResult, payload: dict[str, Update], smaller: Learner
    ) -> Reply:
        """Return the reply of a round. `smaller` is the learner of the model that the client trained."""
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
