"""FedSPU whose weak clients do not train the first layers and cache their results: a cached prefix.

This method is our own and is in no paper. The file has the server's half and the client's half. FedSPU's exact step
takes the whole network forward and back, whatever the share of active neurons. If the budget of a client is too small
for such a step, the client gets a cut as well. The part before the cut comes whole from the server in each of the
client's rounds. It runs once over the client's samples with running statistics, and it is neither trained nor sent
back. The part after the cut is trained as in FedSPU: active coordinates are trained and averaged, and frozen ones are
personal. Clients that can train the first layers do so. If no client can, these layers stay as they were drawn.

The cost that a client's round may have decides its cut (budget.py). The cost is a share of a dense client's cost, by
tier, or seconds, where the client's device has measured its speed. Without budgets the method is FedSPU, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from edgefl.errors import PlanError
from edgefl.learning.fit_options import FitOptions
from edgefl.methods.budget import Effort, Shares, SubmodelOption, Timing, choose, in_time, trained_after, work
from edgefl.methods.client_state import ClientState
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan
from edgefl.methods.sampling import tier
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.throughput import FORETOLD, Workload
from edgefl.models.graph import Graph
from edgefl.models.graph.cuts import after
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec, groups_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update

PREFIX = "prefix"  # the payload's name for the part before the cut


@dataclass(frozen=True)
class FedSPUCached(FedSPU):
    """FedSPU with a budget for each capacity tier. A client gets the share of neurons of its tier and the earliest cut
    that meets the budget. Where no cut meets the budget, the client gets a smaller share of `keep`, or else the plan
    with the fewest multiply-adds.

    budget         for each tier the largest share of a dense client's multiply-adds in a round. (): no tier has a
                   budget
    memory         for each tier the largest share of a dense client's training memory by the account `exact`, with the
                   results of one batch kept. (): no limit
    traffic        for each tier the largest share of a dense client's values on the wire. (): no limit
    round_seconds  training seconds that a round may take on a client whose device has measured its speed. 0: no limit.
                   The tier of such a client does not count. Of all shares up to its capacity the client gets a share
                   that takes half of the seconds to all of them, where that is possible: a large share before a small
                   one, an early cut before a late one (budget.in_time)

    `saved` is also the number format of the prefix's results: 'fp16' takes half the memory.

    Neurons and trained part are as in FedSPU. The prefix brings its trained parameters alone, because a device has
    the frozen parameters.
    """

    name: ClassVar[str] = "fedspu-cached"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True

    budget: tuple[float, ...] = (0.12, 0.24, 1.0, 1.0, 1.0)
    memory: tuple[float, ...] = ()
    traffic: tuple[float, ...] = ()
    round_seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("budget", "memory", "traffic"):
            for share in getattr(self, name):
                check(share > 0, name, share, f"{name} > 0")
        seconds = self.round_seconds
        check(0 <= seconds < float("inf"), "round_seconds", seconds, "0 <= round_seconds, finite")

    # The server.

    @property
    def wants_throughput(self) -> bool:
        return self.round_seconds > 0

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        if not self._is_timed(task, client):
            return self._offered(task, state, round, client, self.offer(task, client))
        offer, seconds = self._in_time(task, client)
        plan = self._offered(task, state, round, client, offer)
        return replace(plan, settings={**plan.settings, FORETOLD: seconds})

    def _offered(self, task: Task, state: State, round: int, client: int, offer: SubmodelOption) -> Plan:
        plan = self._drawn(task, state, round, client, offer.keep)
        return behind(task, state, plan, offer.cut) if offer.cut else plan

    def offer(self, task: Task, client: int) -> SubmodelOption:
        """Return the share and the cut that a client is asked to train.

        Raises ValueError where there is a budget and the graph is not known.
        """
        if self._is_timed(task, client):
            return self._in_time(task, client)[0]
        most = self.share(task, client)
        if not (self.budget or self.memory or self.traffic):
            return SubmodelOption(most)
        if task.graph is None:
            raise ValueError(
                f"{self.name} has a time budget and a model without a graph; expected a model with a graph"
            )
        return choose(task.graph, self._keeps(most), self._effort, self._budget(client, task.clients))

    def single_value_norm(self, task: Task, client: int) -> str:
        """Return the name of the first batch normalisation over single values after the client's cut.

        Without a cut the whole model is searched. The name is empty where the offer follows from time, which is not
        known before round 1.
        """
        if task.graph is None or self.wants_throughput:
            return ""
        cut = self.offer(task, client).cut
        return single_value_norm(after(task.graph, cut) if cut else task.graph)

    def _is_timed(self, task: Task, client: int) -> bool:
        return self.wants_throughput and task.graph is not None and client in task.throughputs

    def _in_time(self, task: Task, client: int) -> tuple[SubmodelOption, float]:
        assert task.graph is not None  # a timed client implies a graph
        most = min(max(self.keep), task.limits.get(client, 1.0))
        return in_time(
            task.graph, self._keeps(most), self._effort, Timing(self.round_seconds, task.throughputs[client])
        )

    def _keeps(self, most: float) -> tuple[float, ...]:
        """Return the shares that a client of the largest share `most` may get."""
        return (most, *(keep for keep in self.keep if keep < most))

    def brief(self, steps: int, examples: int) -> tuple[FedSPUCached, int]:
        """Return the method with as many passes as a round has, if each pass gets a step.

        The frozen part runs once for all passes.
        """
        epochs = min(self.epochs, steps)
        return replace(self, epochs=epochs), min(examples, steps // epochs * self.batch)

    @property
    def _effort(self) -> Effort:
        return Effort(self.epochs, self.batch)

    def _budget(self, client: int, clients: int) -> Shares:
        def of(shares: Sequence[float]) -> float:
            return tier(shares, client, clients) if shares else float("inf")

        return Shares(of(self.budget), of(self.memory), of(self.traffic))

    # The client.

    def trials(self, task: Task, state: State, examples: int, round: int) -> list[tuple[Plan, Workload]]:
        """Return plans of the largest and of the smallest share, each without a cut, with the first and with the last
        cut.
        """
        assert task.graph is not None  # a device has the graph
        known = trained_after(task.graph)
        cut_points = sorted({"", *known[:1], *known[-1:]})
        found = [SubmodelOption(keep, cut) for cut in cut_points for keep in sorted({min(self.keep), max(self.keep)})]
        return [
            (
                self._offered(task, state, round + at, 0, offer),
                work(task.graph, offer, self._effort, examples),
            )
            for at, offer in enumerate(found)
        ]

    def _merge(self, client_state: ClientState, plan: Plan, selection: NeuronSet) -> FitOptions:
        options = super()._merge(client_state, plan, selection)
        cut = plan.settings.get("cut", "")
        if not isinstance(cut, str):
            raise PlanError(f"plan with cut={cut}; expected the name of a result of the graph")
        if cut:
            client_state.learner.write(plan.payload[PREFIX])
        return replace(options, cut=cut)


def behind(task: Task, state: State, plan: Plan, cut: str) -> Plan:
    """Return the plan for training after a cut alone. The part before the cut is sent whole and is not
    expected back.
    """
    assert task.graph is not None  # a cut comes from a graph
    rest = _rest(task.graph, cut)
    neurons = plan.selection and _among(plan.selection, rest)
    blocks = {name: block for name, block in plan.payload[MODEL].blocks.items() if name in rest.params}
    still = take(state.arrays[MODEL], task.spec, None, names=task.spec.params.keys() - rest.params.keys())
    return replace(
        plan,
        selection=neurons,
        payload={MODEL: Update(blocks), PREFIX: still},
        settings={**plan.settings, "cut": cut},
        expects={MODEL: ExpectedPayload("planned")},
    )


def _rest(graph: Graph, cut: str) -> ModelSpec:
    """Return the part of the model after a cut."""
    return ModelSpec.of(graph).part(after(graph, cut))


def _among(neurons: NeuronSet, rest: ModelSpec) -> NeuronSet:
    """Return the set with all neurons active in groups to which no parameter after the cut belongs."""
    used = {group for param in rest.params.values() for axis in (param.rows, param.cols) for group in groups_of(axis)}
    whole = NeuronSet.full(rest)
    active = {group: ids if group in used else whole.active[group] for group, ids in neurons.active.items()}
    keys = {group: key if group in used else None for group, key in neurons.keys.items()}
    return replace(neurons, active=active, keys=keys)
