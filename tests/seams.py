"""Methods that say what FedSPU and its kin do not, for tests of the ways they say it by. None is from a paper.

Sparse    a mask for each client, kept by both sides: values at it both ways, a new mask up, fewer of them each round
Largest   a reply of other names, at coordinates that the client chose
Silent    a reply of nothing
Smaller   a model of some of the neurons, trained apart
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgefl import rng
from edgefl.learning import Evaluation
from edgefl.learning.learner import FitResult
from edgefl.methods.algorithm import MODEL, Accumulator, ClientState, Plan, Reply, State, Task, evaluate, sample_clients
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fedavg import FedAvg
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take, take_flat
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted

MASK = "mask"


def answer(local: ClientState, plan: Plan, fit: FitResult, **rest: object) -> Reply:
    metrics = {"loss": fit.loss_sum / fit.examples}
    return Reply(plan.round, plan.client, examples=len(local.train), steps=fit.steps, metrics=metrics, **rest)  # type: ignore[arg-type]


def weights(spec: ModelSpec) -> tuple[str, ...]:
    return tuple(name for name, param in spec.params.items() if len(param.shape) > 1)


def random_mask(spec: ModelSpec, seed: int, client: int, share: float, round: int = 0) -> Mask:
    """That share of the coordinates of every weight."""
    bits = {}
    for number, name in enumerate(weights(spec)):
        size = int(np.prod(spec.params[name].shape))
        key = rng.stream(seed, rng.MASK, client, round, number).key()
        bits[name] = np.zeros(spec.params[name].shape, np.bool_)
        bits[name].reshape(-1)[rng.sample_ids(key, size, int(size * share))] = True
    return Mask.of(spec, bits)


def mask_named(spec: ModelSpec, arrays: Mapping[str, Params], name: str) -> Mask | None:
    return Mask.of(spec, arrays[name]) if name in arrays else None


@dataclass(frozen=True)
class Sparse(FedAvg):
    """The share of ones falls from 1/2 before round 1 to 1/4 after the last; a client is tested at its mask."""

    name: ClassVar[str] = "sparse"
    keeps_state: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [self._plan(task, state, round, client) for client in chosen]

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        held = mask_named(task.spec, state.arrays, f"{MASK}.{client}")
        mask = held or random_mask(task.spec, task.seed, client, 0.5)
        payload = {MODEL: take(state.arrays[MODEL], task.spec, mask)}
        expects = {MODEL: ExpectedPayload("masked", None, mask), MASK: ExpectedPayload("mask", weights(task.spec))}
        settings = {"share": 0.5 - 0.25 * round / task.rounds}
        masks = {} if held else {MASK: mask}
        return Plan("train", round, client, None, payload, settings, masks=masks, expects=expects, held=held)

    def fold(self, tally: Accumulator, plan: Plan, reply: Reply) -> None:
        super().fold(tally, plan, reply)
        tally.masks[reply.client] = reply.masks[MASK]

    def finish(self, task: Task, state: State, tally: Accumulator, round: int) -> State:
        new = {f"{MASK}.{client}": dict(mask.bits) for client, mask in tally.masks.items()}
        return State({**state.arrays, **super().finish(task, state, tally, round).arrays, **new})

    def held(self, local: ClientState) -> list[Mask]:
        mask = mask_named(local.spec, local.arrays, MASK)
        return [] if mask is None else [mask]

    def train(self, local: ClientState, plan: Plan) -> Reply:
        mask = plan.masks.get(MASK) or self.held(local)[0]
        local.learner.write(zeros_elsewhere(local, mask))
        local.learner.write(plan.payload[MODEL])
        fit = local.learner.fit(local.data, self.batches(local, plan.round), self.local_optimizer(plan.round))
        new = random_mask(local.spec, local.seed, plan.client, float(plan.settings["share"]), plan.round)
        local.arrays = {**local.arrays, MASK: dict(new.bits)}
        return answer(local, plan, fit, payload={MODEL: local.learner.take(mask)}, masks={MASK: new})

    def evaluate(self, local: ClientState, shared: Params | None) -> Evaluation:
        assert shared is not None
        (mask,) = self.held(local) or [random_mask(local.spec, local.seed, local.client, 0.5)]
        local.learner.write({**shared, **zeros_elsewhere(local, mask)})
        local.learner.write(take(shared, local.spec, mask))
        return evaluate(local)


def zeros_elsewhere(local: ClientState, mask: Mask) -> Params:
    return {name: np.zeros(bits.shape, np.float32) for name, bits in mask.bits.items()}


@dataclass(frozen=True)
class Largest(FedAvg):
    """Of every weight the tenth that moved most, and no bias. `payload` says that these are moves."""

    name: ClassVar[str] = "largest"

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        expects = {"moves": ExpectedPayload("chosen", weights(task.spec))}
        return [Plan(**{**vars(plan), "expects": expects}) for plan in super().plan(task, state, round)]

    def fold(self, tally: Accumulator, plan: Plan, reply: Reply) -> None:
        tally.of("moves").add(reply.client, reply.payload["moves"], 1)

    def finish(self, task: Task, state: State, tally: Accumulator, round: int) -> State:
        moves, model = tally.of("moves"), state.arrays[MODEL]
        count = max(len(moves.clients), 1)
        return State({MODEL: {name: (w + moves.total[name] / count).astype(w.dtype) for name, w in model.items()}})

    def train(self, local: ClientState, plan: Plan) -> Reply:
        local.learner.write(plan.payload[MODEL])
        before = {name: value.copy() for name, value in local.learner.read(weights(local.spec)).items()}
        fit = local.learner.fit(local.data, self.batches(local, plan.round), self.local_optimizer(plan.round))
        moves = {name: value - before[name] for name, value in local.learner.read(weights(local.spec)).items()}
        return answer(local, plan, fit, payload={"moves": take_flat(moves, {n: tenth(m) for n, m in moves.items()})})


def tenth(move: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.abs(move.reshape(-1)), kind="stable")
    return np.sort(order[: max(move.size // 10, 1)]).astype(np.uint32)


@dataclass(frozen=True)
class Silent(FedAvg):
    """It sends the model and wants nothing but the loss, of which the server keeps the sum."""

    name: ClassVar[str] = "silent"

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return [Plan(**{**vars(plan), "expects": {}}) for plan in super().plan(task, state, round)]

    def fold(self, tally: Accumulator, plan: Plan, reply: Reply) -> None:
        tally.reported.append(reply.client)

    def finish(self, task: Task, state: State, tally: Accumulator, round: int) -> State:
        return State(state.arrays, {"heard": state.values.get("heard", 0) + len(tally.reported)})

    def train(self, local: ClientState, plan: Plan) -> Reply:
        local.learner.write(plan.payload[MODEL])
        return answer(
            local,
            plan,
            local.learner.fit(local.data, self.batches(local, plan.round), self.local_optimizer(plan.round)),
        )


@dataclass(frozen=True)
class Smaller(FedAvg):
    """Half of the neurons, drawn by the server, as a model of their own."""

    name: ClassVar[str] = "smaller"

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        plans = []
        for plan in super().plan(task, state, round):
            stream = rng.stream(task.seed, rng.NEURONS, client=plan.client, round=round)
            neurons = NeuronSet.draw(task.spec, 0.5, stream)
            payload = {MODEL: take(state.arrays[MODEL], task.spec, neurons)}
            plans.append(Plan("train", round, plan.client, neurons, payload))
        return plans

    def train(self, local: ClientState, plan: Plan) -> Reply:
        assert plan.selection is not None
        local.learner.write(plan.payload[MODEL])
        smaller = local.learner.sub(plan.selection)
        fit = smaller.fit(local.data, self.batches(local, plan.round), self.local_optimizer(plan.round))
        local.learner.absorb(smaller, plan.selection)
        payload = {MODEL: local.learner.take(plan.selection)}
        assert payload[MODEL] == lifted(smaller.read(), local.spec, plan.selection)
        return answer(local, plan, fit, payload=payload, selection_hash=plan.selection.hash())


SEAMS = {kind.name: kind for kind in (Sparse, Largest, Silent, Smaller)}
