"""FjORD, ordered dropout: clients train models of the first neurons of every layer, as many as each client can afford.

The file has the server's half and the client's half. Widths are nested: a larger share has all neurons of a smaller
share. A client steps at all widths up to its own, drawing one for each batch, and is tested at its own width.

Self-distillation from the client's own width is left out, because it needs a loss with soft targets. There are two
departures from the paper. A width has max(1, floor(n p)) neurons of a layer, as everywhere in edgefl, and not ceil(n
p). Each width has running statistics of its own for a BatchNorm, while weight and bias are common to all widths.

Source  Horvath et al., "FjORD: Fair and accurate federated learning under heterogeneous targets with ordered dropout"
        (NeurIPS 2021). ALGORITHMS 7.15
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Literal

import numpy as np

from edgefl import rng
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.learner import Batches, FitResult, Learner
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel, dropout_key, minibatches
from edgefl.methods.local_steps import UNCOUNTED
from edgefl.methods.nested_models import STATISTICS, NestedLearners
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.submodel_training import SubModels, cut, planned
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import KINDS, Update

KEEP = "keep"  # name of the client's own width in a plan's settings and in the client's private values
WIDTH = "width-"  # prefix of the names of sets of running statistics
MOST_WIDTHS = 16  # most widths, because each has a payload and a message has at most so many


@dataclass(frozen=True)
class FjORD(SubModels):
    """The method FjORD: nested sub-models whose widths are the first neurons of each layer.

    width  'sampled': every batch has a width, drawn from the widths of `keep` up to the client's own. 'fixed': all
           batches have the client's own width, as where FedSPU is compared with FjORD

    Sampled steps are plain SGD, because momentum or Adam would need at each width what the other widths have seen. A
    client that has never been selected does not know its width and is tested at the smallest width.

    A sub-model has the frozen weights of its neurons, too. A client trains and sends the trained part of the sub-
    model.
    """

    name: ClassVar[str] = "fjord"
    asynchronous: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    width: Literal["sampled", "fixed"] = "sampled"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(len(self.ladder) <= MOST_WIDTHS, "keep", self.keep, f"at most {MOST_WIDTHS} different widths")
        steps = f"{self.optimizer} with momentum={self.momentum:g}"
        check(self.width == "fixed" or (self.optimizer == "sgd" and not self.momentum), "optimizer", steps,
              "plain sgd, or width=fixed")  # fmt: skip

    @property
    def ladder(self) -> tuple[float, ...]:
        """The widths in ascending order."""
        return tuple(sorted(set(self.keep)))

    def widths(self, own: float) -> tuple[float, ...]:
        """Return the widths at which a client steps, in ascending order. The last width is the client's own."""
        return tuple(p for p in self.ladder if p <= own) if self.width == "sampled" and own in self.ladder else (own,)

    def state_key(self, width: float) -> str:
        """Return the name of the arrays with the running statistics of a width.

        The statistics of the widest width are in the model. A client that can afford no width has the statistics of the
        smallest.
        """
        known = max(width, self.ladder[0])
        return MODEL if known == self.ladder[-1] else f"{WIDTH}{known!r}"

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        statistics = {name: value for name, value in initial.items() if task.spec.params[name].kind == "stat"}
        apart = {self.state_key(width): statistics for width in self.ladder[:-1]} if statistics else {}
        return State({MODEL: initial, **apart})

    def client_plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        most = self.share(task, client)
        own = max((p for p in self.ladder if p <= most), default=most)
        neurons = NeuronSet.leading(task.spec, own)
        state_keys = [self.state_key(width) for width in self.widths(own)]
        payload = {
            name: take(params, task.spec, neurons, kinds=_kinds(name, state_keys))
            for name, params in state.arrays.items()
            if name == MODEL or name in state_keys
        }
        return Plan("train", round, client, neurons, payload, {KEEP: own})

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        weight = reply.examples if self.weight == "samples" else 1
        for name, update in reply.payload.items():
            (accumulator.mean if name == MODEL else accumulator.of(name)).add(reply.client, update, weight)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        means = {name: accumulator.mean if name == MODEL else accumulator.of(name) for name in state.arrays}
        return State({name: means[name].over(params) for name, params in state.arrays.items()})

    def beside(self, parts: Collection[str]) -> tuple[str, ...]:
        return tuple(part for part in parts if part.startswith(WIDTH))

    def shared(self, arrays: Mapping[str, Params]) -> Params | None:
        """Return the model, and the running statistics of the narrower widths by names such as "width-0.2/NAME"."""
        apart = {f"{part}/{name}": value for part in self.beside(arrays) for name, value in arrays[part].items()}
        return {**arrays[MODEL], **apart}

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        nested = self._nested(client_state, plan)
        fit = self._fit(nested, client_state, self.batches(client_state, plan.round), plan.round)
        client_state.private = {**client_state.private, KEEP: nested.own}
        reply = self.answer(client_state, plan, fit, {}, nested.at(nested.own))
        return replace(reply, payload=self._payload(nested, client_state.learner, plan))

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        width = client_state.private.get(KEEP, self.ladder[0])
        neurons, state_key = NeuronSet.leading(client_state.spec, width), self.state_key(width)
        client_state.learner.write(
            {name: shared.get(f"{state_key}/{name}", shared[name]) for name in client_state.spec.exchanged}
        )
        yield OwnModel(cut(client_state.learner, neurons), client_state.data, neurons=neurons)

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the model at the widest width of `keep`."""
        client_state.private = {**client_state.private, KEEP: self.ladder[-1]}
        with self.own(client_state, self.shared(arrays)) as mine:
            yield mine

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        nested = self._nested(client_state, plan)
        self._fit(nested, client_state, minibatches(client_state, UNCOUNTED, epochs, self.batch), UNCOUNTED)
        yield OwnModel(nested.at(nested.own), client_state.data, neurons=planned(plan))

    def _nested(self, client_state: ClientState, plan: Plan) -> NestedLearners:
        """Return the learners of the client's widths with the values of a plan."""
        widths = self.widths(float(plan.settings[KEEP]))
        client_state.learner.write(plan.payload[MODEL])
        nested = NestedLearners(
            client_state.learner, {width: NeuronSet.leading(client_state.spec, width) for width in widths}
        )
        for width in widths if _has_statistics(client_state.spec) else ():
            nested.begin(width, plan.payload[self.state_key(width)])
        return nested

    def _fit(self, nested: NestedLearners, client_state: ClientState, batches: Batches, round: int) -> FitResult:
        """Take a step for each batch, at widths drawn for this client and round."""
        optimizer = self.local_optimizer(round) if round != UNCOUNTED else self.optimizer_at(self.lr)
        if len(nested.widths) == 1:
            return nested.at(nested.own).fit(client_state.data, batches, optimizer)
        batches = client_state.learner.joined(batches)
        stream = rng.stream(client_state.seed, rng.NEURONS, client=client_state.client, round=round)
        drawn = stream.below(np.full(len(batches), len(nested.widths)))
        key, step, fits = dropout_key(client_state, round), 0, []
        for which, run in groupby(zip(drawn.tolist(), batches, strict=True), key=itemgetter(0)):
            part = Listed((batch for _, batch in run), Keyed(key, step))
            fits.append(nested.at(nested.widths[which]).fit(client_state.data, part, optimizer))
            step += len(part)
        return FitResult(sum(fit.loss_sum for fit in fits), sum(fit.examples for fit in fits), step)

    def _payload(self, nested: NestedLearners, whole: Learner, plan: Plan) -> dict[str, Update]:
        """Return the payload of a reply: values where the plan sent some.

        Values of neurons beyond a width stay as they came.
        """
        neurons, payload = planned(plan), {}
        nested.settle()
        for width in nested.widths:
            state_key = self.state_key(width)
            if width < nested.own and state_key in plan.payload:
                whole.write(plan.payload[state_key])
            whole.write(nested.statistics(width))
            if state_key != MODEL and state_key in plan.payload:
                payload[state_key] = whole.take(neurons, kinds=STATISTICS)
        kinds = _kinds(MODEL, [self.state_key(width) for width in nested.widths])
        return {MODEL: whole.take(neurons, kinds=kinds), **payload}


def _kinds(state_key: str, state_keys: Sequence[str]) -> Collection[Kind]:
    """Return the kinds of parameters that a client is sent from the arrays `state_key`.

    `state_keys` name the arrays with the statistics of the client's widths.
    """
    if state_key != MODEL:
        return STATISTICS
    return KINDS if MODEL in state_keys else ("learn",)


def _has_statistics(spec: ModelSpec) -> bool:
    return any(param.kind == "stat" for param in spec.params.values())
