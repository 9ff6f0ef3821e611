"""Hermes: every client prunes a smaller model of its own, and the server averages the coordinates that clients share.

The file has the server's half and the client's half. A client whose model is accurate enough gives up the neurons with
the smallest weights, until it has the share that it is to have. It then sends the neurons that are left.

A coordinate that one client of a round has alone keeps this client's value, so it is personal. A client is tested with
its neurons on the common model [ours].

Source  Li et al., "Hermes: An efficient federated learning framework for heterogeneous mobile clients" (MobiCom 2021).
        ALGORITHMS 7.21
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import TrainingError
from edgefl.learning.learner import Learner
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Scored
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.submodel_training import SubModels, cut, planned, put_back
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.block_index import Axes, ids_by_group
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.model_spec import ModelSpec, groups_of
from edgefl.models.neurons.neuron_norms import l1_norms, largest_neurons
from edgefl.models.neurons.neuron_set import NeuronSet, n_act
from edgefl.models.neurons.prune_and_grow import prune_count
from edgefl.models.neurons.update import EVERY_KIND, Update

NEURONS = "neurons"  # name of a client's neurons among its arrays, a bit for each. On the server one for each client


@dataclass(frozen=True)
class Hermes(SubModels):
    """The method Hermes: w_j <- the mean of x_k,j over the clients of a round that have coordinate j.

    keep        share of each layer's neurons at which a client's pruning ends, by capacity tier
    prune_rate  share of its present neurons that a client gives up at once, in every layer
    accuracy    smallest accuracy of the trained model. Below it the client does not prune in this round
    accept_on   samples that measure the accuracy: 'validation' or 'test'
    weight      weight of a client in the average: 'uniform' (1 for every client), or 'samples' (n_k)

    A smaller model has the frozen weights of its neurons, too, and they count in the norms. A client trains and sends
    the trained part of its smaller model. Neurons without a trained parameter stay.
    """

    name: ClassVar[str] = "hermes"
    keeps_state: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    prune_rate: float = 0.2
    accuracy: float = 0.5
    accept_on: Literal["validation", "test"] = "validation"
    weight: Literal["samples", "uniform"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.prune_rate < 1, "prune_rate", self.prune_rate, "0 <= prune_rate < 1")
        check(0 <= self.accuracy <= 1, "accuracy", self.accuracy, "0 <= accuracy <= 1")

    @property
    def prunes(self) -> bool:
        """Return whether any client may give up neurons."""
        return self.prune_rate > 0 and min(self.keep) < 1

    @property
    def needs_validation(self) -> bool:
        return super().needs_validation or (self.prunes and self.accept_on == "validation")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        is_judged = task.decisions > 0 or not self.prunes
        check(is_judged, "loss", task.loss, "a loss with right and wrong answers: a model is pruned if it is accurate")
        return State({MODEL: initial})

    def client_plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        neurons, share = self._neurons(task, state, client), self.share(task, client)
        payload = {MODEL: take(state.arrays[MODEL], task.spec, neurons)}
        is_done = not self.prune_rate or fewer(task.spec, neurons, share, self.prune_rate) == counts(neurons)
        expects = None if is_done else {MODEL: ExpectedPayload("chosen")}
        return Plan("train", round, client, neurons, payload, {"keep": share}, expects=expects)

    def _neurons(self, task: Task, state: State, client: int) -> NeuronSet:
        """Return a client's neurons. A client that declares a limit begins with the strongest neurons within it."""
        spec, limit = task.spec, task.limits.get(client, 1.0)
        known = unpacked(spec, state.arrays.get(f"{NEURONS}.{client}"))
        most = {group: min(count, n_act(spec.groups[group], limit)) for group, count in counts(known).items()}
        return known if most == counts(known) else strongest(state.arrays[MODEL], spec, known, most)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        super().aggregate(accumulator, plan, reply)
        if MODEL in reply.payload:
            accumulator.neurons[reply.client] = left_in(reply.payload[MODEL], planned(plan), accumulator.spec)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        left = {client: neurons for client, neurons in accumulator.neurons.items() if not neurons.is_full}
        found = {f"{NEURONS}.{client}": packed(neurons) for client, neurons in left.items()}
        return State({**state.arrays, **found, MODEL: accumulator.mean.over(state.arrays[MODEL])})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        neurons, smaller = planned(plan), self.smaller(client_state, plan)
        fit = smaller.fit(client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        put_back(client_state.learner, smaller, neurons)
        left = self._left(client_state, plan, smaller) if plan.due[MODEL].kind == "chosen" else neurons
        client_state.arrays = {**client_state.arrays, NEURONS: packed(left)}
        return self.answer(client_state, plan, fit, {MODEL: client_state.learner.take(left)}, smaller)

    def _left(self, client_state: ClientState, plan: Plan, smaller: Learner) -> NeuronSet:
        """Return the neurons that are left if the trained model is accurate enough, or else the plan's neurons."""
        neurons, spec, judges = planned(plan), client_state.spec, self._judges(client_state)
        found = smaller.evaluate(client_state.data, judges)
        if found.correct < self.accuracy * found.examples * found.decisions:
            return neurons
        values: Params = {name: np.zeros_like(value) for name, value in client_state.learner.read().items()}
        put(values, client_state.learner.take(neurons, kinds=EVERY_KIND))
        return strongest(values, spec, neurons, fewer(spec, neurons, float(plan.settings["keep"]), self.prune_rate))

    def _judges(self, client_state: ClientState) -> NDArray[np.int32]:
        """Return the samples on which a model has to be accurate. Raises TrainingError if there are no samples."""
        chosen = client_state.validation if self.accept_on == "validation" else client_state.test
        if not len(chosen):
            raise TrainingError(
                f"client {client_state.client} has 0 {self.accept_on} samples; pruning needs at least 1"
            )
        return chosen

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Yield the present common model at the client's neurons."""
        assert shared is not None
        neurons = unpacked(client_state.spec, client_state.arrays.get(NEURONS))
        client_state.learner.write({name: shared[name] for name in client_state.spec.exchanged})
        yield OwnModel(cut(client_state.learner, neurons), client_state.data, neurons=neurons)

    def scored(self, parts: object) -> Scored:
        return "personal"


def counts(neurons: NeuronSet) -> dict[str, int]:
    """Return the number of neurons of each group."""
    return {group: len(ids) for group, ids in neurons.active.items()}


def fewer(spec: ModelSpec, neurons: NeuronSet, share: float, rate: float) -> dict[str, int]:
    """Return the numbers of neurons after one more pruning, which ends at this share of each group."""
    axes = [axis for name in spec.exchanged for axis in (spec.params[name].rows, spec.params[name].cols)]
    seen = {group for axis in axes for group in groups_of(axis)}  # the server does not learn of other groups
    found = {}
    for group, count in counts(neurons).items():
        least = min(count, n_act(spec.groups[group], share))
        found[group] = max(least, count - prune_count(rate, count)) if group in seen else count
    return found


def strongest(params: Params, spec: ModelSpec, neurons: NeuronSet, number: Mapping[str, int]) -> NeuronSet:
    """Return the `number[group]` neurons of largest L1 norm among these neurons."""
    norms = l1_norms(params, spec)
    for group, size in spec.groups.items():
        norms[group][np.setdiff1d(np.arange(size), neurons.active[group])] = -1
    return largest_neurons(spec, norms, number)


def left_in(update: Update, before: NeuronSet, spec: ModelSpec) -> NeuronSet:
    """Return the neurons that a client's values are at, among the neurons that it had before."""
    found: dict[str, NDArray[np.int32]] = {}
    for name, block in update.blocks.items():
        if isinstance(block.index, Axes):
            param = spec.params[name]
            for axis, ids in ((param.rows, block.index.rows), (param.cols, block.index.cols)):
                found |= {group: part.neurons for group, part in ids_by_group(axis, ids)}
    both = {group: np.intersect1d(ids, found.get(group, ids)) for group, ids in before.active.items()}
    return NeuronSet.of(spec, {group: ids if len(ids) else before.active[group] for group, ids in both.items()})


def packed(neurons: NeuronSet) -> Params:
    """Return a bit for each neuron by group, eight in a byte, the first bit lowest."""
    marks = {group: np.isin(np.arange(neurons.sizes[group]), ids) for group, ids in neurons.active.items()}
    return {group: np.packbits(each, bitorder="little") for group, each in marks.items()}


def unpacked(spec: ModelSpec, arrays: Params | None) -> NeuronSet:
    """Return the neurons from their packed bits. Without arrays these are all neurons."""
    if not arrays:
        return NeuronSet.full(spec)
    bits = {group: np.unpackbits(arrays[group], count=size, bitorder="little") for group, size in spec.groups.items()}
    return NeuronSet.of(spec, {group: np.flatnonzero(each) for group, each in bits.items()})
