"""Methods that use parts of the interface that FedSPU and its kin do not use. No paper has them.

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
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, evaluate
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take, take_flat
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted

MASK = "mask"


def answer(client_state: ClientState, plan: Plan, fit: FitResult, **rest: object) -> Reply:
    metrics = {"loss": fit.loss_sum / fit.examples}
    return Reply(plan.round, plan.client, examples=len(client_state.train), steps=fit.steps, metrics=metrics, **rest)  # type: ignore[arg-type]


def weights(spec: ModelSpec) -> tuple[str, ...]:
    return tuple(name for name, param in spec.params.items() if len(param.shape) > 1)


def random_mask(spec: ModelSpec, seed: int, client: int, share: float, round: int = 0) -> Mask:
    """Return a mask with this share of the coordinates of every weight."""
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
    """Masks whose share of ones falls from 1/2 before round 1 to 1/4 after the last. A client is tested at its mask."""

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

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        super().aggregate(accumulator, plan, reply)
        accumulator.masks[reply.client] = reply.masks[MASK]

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        new = {f"{MASK}.{client}": dict(mask.bits) for client, mask in accumulator.masks.items()}
        return State({**state.arrays, **super().finish(task, state, accumulator, round).arrays, **new})

    def held(self, client_state: ClientState) -> list[Mask]:
        mask = mask_named(client_state.spec, client_state.arrays, MASK)
        return [] if mask is None else [mask]

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mask = plan.masks.get(MASK) or self.held(client_state)[0]
        client_state.learner.write(zeros_elsewhere(client_state, mask))
        client_state.learner.write(plan.payload[MODEL])
        fit = client_state.learner.fit(
            client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        )
        new = random_mask(client_state.spec, client_state.seed, plan.client, float(plan.settings["share"]), plan.round)
        client_state.arrays = {**client_state.arrays, MASK: dict(new.bits)}
        return answer(client_state, plan, fit, payload={MODEL: client_state.learner.take(mask)}, masks={MASK: new})

    def evaluate(self, client_state: ClientState, shared: Params | None) -> Evaluation:
        assert shared is not None
        (mask,) = self.held(client_state) or [
            random_mask(client_state.spec, client_state.seed, client_state.client, 0.5)
        ]
        client_state.learner.write({**shared, **zeros_elsewhere(client_state, mask)})
        client_state.learner.write(take(shared, client_state.spec, mask))
        return evaluate(client_state)


def zeros_elsewhere(client_state: ClientState, mask: Mask) -> Params:
    return {name: np.zeros(bits.shape, np.float32) for name, bits in mask.bits.items()}


@dataclass(frozen=True)
class Largest(FedAvg):
    """Replies with the tenth of every weight that moved most, and no bias. `payload` says that these are moves."""

    name: ClassVar[str] = "largest"

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        expects = {"moves": ExpectedPayload("chosen", weights(task.spec))}
        return [Plan(**{**vars(plan), "expects": expects}) for plan in super().plan(task, state, round)]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        accumulator.of("moves").add(reply.client, reply.payload["moves"], 1)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        moves, model = accumulator.of("moves"), state.arrays[MODEL]
        count = max(len(moves.clients), 1)
        return State({MODEL: {name: (w + moves.total[name] / count).astype(w.dtype) for name, w in model.items()}})

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        before = {name: value.copy() for name, value in client_state.learner.read(weights(client_state.spec)).items()}
        fit = client_state.learner.fit(
            client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        )
        moves = {
            name: value - before[name] for name, value in client_state.learner.read(weights(client_state.spec)).items()
        }
        return answer(
            client_state, plan, fit, payload={"moves": take_flat(moves, {n: tenth(m) for n, m in moves.items()})}
        )


def tenth(move: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.abs(move.reshape(-1)), kind="stable")
    return np.sort(order[: max(move.size // 10, 1)]).astype(np.uint32)


@dataclass(frozen=True)
class Silent(FedAvg):
    """A method that sends the model and wants nothing but the loss. The server keeps the sum of losses."""

    name: ClassVar[str] = "silent"

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return [Plan(**{**vars(plan), "expects": {}}) for plan in super().plan(task, state, round)]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        accumulator.reported.append(reply.client)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State(state.arrays, {"heard": state.values.get("heard", 0) + len(accumulator.reported)})

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        return answer(
            client_state,
            plan,
            client_state.learner.fit(
                client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
            ),
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

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        assert plan.selection is not None
        client_state.learner.write(plan.payload[MODEL])
        smaller = client_state.learner.sub(plan.selection)
        fit = smaller.fit(client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        client_state.learner.absorb(smaller, plan.selection)
        payload = {MODEL: client_state.learner.take(plan.selection)}
        assert payload[MODEL] == lifted(smaller.read(), client_state.spec, plan.selection)
        return answer(client_state, plan, fit, payload=payload, selection_hash=plan.selection.hash())


SEAMS = {kind.name: kind for kind in (Sparse, Largest, Silent, Smaller)}
