"""LG-FedAvg: every client trains a body of its own under a common head, and the server averages the heads.

The file has the server's half and the client's half. A client keeps its whole model and is tested with it: its body,
and the head as its last training left it.

Source  Liang et al., "Think locally, act globally: Federated learning with local and global representations"
        (arXiv:2001.01523). ALGORITHMS 7.22
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import Update

HEAD = "head"  # name of the common head in the server's state, and of its payload


@dataclass(frozen=True)
class LGFedAvg(EarlyStopping, LocalTraining):
    """The method LG-FedAvg: the head is the mean of the clients' heads, weighted by their training samples. The bodies
    stay on the clients.

    The clients share the trained part of the head. A head without a trained parameter is refused.
    """

    name: ClassVar[str] = "lg-fedavg"
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def start(self, task: Task, initial: Params) -> State:
        spec = task.spec
        shared = [name for name in spec.head if name in spec.exchanged]
        found = f"head {list(spec.head)} of which nothing is trained"
        check(
            bool(shared),
            "model",
            found,
            "a head that is trained, as clients share the head: fedper and fedbabu share the body",
        )
        return State({HEAD: {name: initial[name] for name in shared}})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {HEAD: take_head(task, state)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        payload = {HEAD: take_head(task, state)}
        return [Plan("evaluate", round, client, payload=payload) for client in clients]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if HEAD in reply.payload:
            accumulator.of(HEAD).add(reply.client, reply.payload[HEAD], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({HEAD: accumulator.of(HEAD).over(state.arrays[HEAD])})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[HEAD])
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        fit = client_state.learner.fit(client_state.data, batches, optimizer)
        return Reply(
            plan.round,
            plan.client,
            payload={HEAD: client_state.learner.take(names=client_state.spec.head)},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield a new body under the common head, after `epochs` passes over both."""
        client_state.learner.write(arrays[HEAD])
        yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, self.epochs, self.batch)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the client's body under the newest head, after both were trained as in a round."""
        client_state.learner.write(plan.payload[HEAD])
        yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch)


def take_head(task: Task, state: State) -> Update:
    """Return the payload of every client of a round: the common head."""
    return take(state.arrays[HEAD], task.spec, None, names=state.arrays[HEAD])
