"""FedSPU, personalised federated learning with stochastic parameter update. early_stopping.py has its early stopping.

The file has the server's half and the client's half. Every client keeps the whole model. In each round a random set of
its neurons is active: their values come from the server, are trained and go back. The other neurons are frozen: they
are used in the forward pass, are not trained and are never sent.

ALGORITHMS 1.6 lists departures from the released code.

Source  FedSPU (AAAI), Alg. 1 and 2, Eq. 4, Fig. 3, ALGORITHMS 1 and 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.errors import PlanError
from edgefl.learning.fit_options import FitOptions
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel, minibatches, passes
from edgefl.methods.early_stopping import EarlyStopping, runners
from edgefl.methods.local_steps import LocalSteps
from edgefl.methods.neuron_draws import NeuronDraws
from edgefl.methods.option_checks import check, check_sgd, check_tiers
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import tier
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_neurons
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.neuron_set import NeuronSet


@dataclass(frozen=True)
class FedSPU(NeuronDraws, EarlyStopping, LocalSteps):
    """The method FedSPU, or FedSPU+ES with `es=True`.

    keep         p_k: share of active neurons of each capacity tier. The clients are split into equal clusters in the
                 order of ids
    delta        'exact': the true gradient on active coordinates (Eq. 4). 'cut': the backward signal stops at frozen
                 neurons, which is cheaper and is not FedSPU
    bn_frozen    running statistics of frozen channels: 'track' updates them locally, 'freeze' keeps them
    first_state  model of a client before its first participation: 'init' is w^0, 'current_global' is the server's model
                 of that round, whose frozen part is then sent as well (as in the released code)
    weight       weight of a client in the average: its 'samples', or its 'batches' as in the released code
    lam          weight of the training loss in L = lam * L_train + (1 - lam) * L_val, under early stopping

    The steps are the paper's plain SGD at one rate, unless a setting of LocalSteps says otherwise [ours].

    Neurons are drawn from the whole model. A client trains and sends the weights of the trained part that belong to
    active neurons. A trained part without neurons is refused, unless keep is 1.
    """

    name: ClassVar[str] = "fedspu"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    trains_parts: ClassVar[bool] = True

    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    per_round: int = 10
    epochs: int = 5
    batch: int = 16
    delta: Literal["exact", "cut"] = "exact"
    bn_frozen: Literal["track", "freeze"] = "track"
    first_state: Literal["init", "current_global"] = "init"
    weight: Literal["samples", "batches"] = "samples"
    lam: float = 0.7

    def __post_init__(self) -> None:
        check_sgd(self.per_round, self.epochs, self.batch, self.lr)
        check_tiers(self.keep)
        check(0 <= self.lam <= 1, "lam", self.lam, "0 <= lam <= 1")
        self.check_stopping()
        self._check_local()

    def tier(self, client: int, clients: int) -> float:
        """Return p_k, the share of active neurons in the tier of a client."""
        return tier(self.keep, client, clients)

    def steps(self, examples: int) -> int:
        return self.effort(examples)[0]

    @property
    def loss_share(self) -> float:
        return self.lam

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check_neurons(task.spec, self.keep)
        values = {"running": list(range(task.clients)), "seen": [], "round_lt_C": None, "round_empty": None}
        return State({MODEL: initial}, values)

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        running = state.values["running"]
        chosen = self.take_part(task, running, self.per_round, round, lambda client: self.share(task, client))
        return [self._plan(task, state, round, client) for client in chosen]

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        return self._drawn(task, state, round, client, self.share(task, client))

    def share(self, task: Task, client: int) -> float:
        """Return the largest share of active neurons that a client may be given."""
        return min(self.tier(client, task.clients), task.limits.get(client, 1.0))

    def _drawn(self, task: Task, state: State, round: int, client: int, p: float) -> Plan:
        neurons = NeuronSet.draw(task.spec, p, self.drawing(task, client, p, round))
        whole = neurons.is_full or (self.first_state == "current_global" and client not in state.values["seen"])
        payload = take(state.arrays[MODEL], task.spec, None if whole else neurons)
        return Plan("train", round, client, neurons, {MODEL: payload}, {"keep": p})

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, state, plan.round, plan.client)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return the next selections of the clients, also of clients that have stopped."""
        return [self._plan(task, state, round, client) for client in clients]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Add the reply to the round. A client that stops in this round is still averaged (Alg. 2)."""
        accumulator.reported.append(reply.client)
        if reply.status == "stopped":
            accumulator.stopped.append(reply.client)
        if MODEL in reply.payload:
            weight = reply.examples if self.weight == "samples" else reply.steps
            accumulator.mean.add(reply.client, reply.payload[MODEL], weight)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        found = runners(state.values, task.clients, accumulator.stopped, self.per_round, round)
        values = {**state.values, **found, "seen": sorted({*state.values["seen"], *accumulator.reported})}
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])}, values)

    def untrained(self, state: State, initial: Params) -> Params:
        return initial if self.first_state == "init" else state.arrays[MODEL]

    # The client.

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.epochs, self.batch)

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        if plan.selection is None:
            raise PlanError(f"plan of round {plan.round} without neurons; expected the active neurons")
        active = None if plan.selection.is_full else plan.selection
        options = self._merge(client_state, plan, plan.selection)
        batches = minibatches(client_state, plan.round, self.epochs, self.batch)
        fit = client_state.learner.fit(client_state.data, batches, self.local_optimizer(plan.round), options)
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: client_state.learner.take(active, names=plan.payload[MODEL].blocks)},
            selection_hash=plan.selection.hash(),
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        assert plan.selection is not None
        options = self._merge(client_state, plan, plan.selection)
        mine = OwnModel(client_state.learner, client_state.data)
        yield self.refit(mine, client_state, epochs, self.batch, options=options)

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the server's whole model after `epochs` passes over all of it, as for a client of p = 1."""
        client_state.learner.write({name: arrays[MODEL][name] for name in client_state.spec.exchanged})
        mine = OwnModel(client_state.learner, client_state.data)
        yield self.refit(mine, client_state, self.epochs, self.batch)

    def _merge(self, client_state: ClientState, plan: Plan, selection: NeuronSet) -> FitOptions:
        """Write the values of a plan into the client's model, and return the options of the plan's steps.

        Coordinates that the plan does not bring keep the client's personal values.
        """
        client_state.learner.write(plan.payload[MODEL])
        neurons = None if selection.is_full else selection
        return FitOptions(neurons, delta=self.delta, bn_frozen=self.bn_frozen)
