"""FedSpa: sparse personal models, trained from sparse to sparse (DST), or with masks that stay (RSM).

The file has the server's half and the client's half. The server has one dense model, and every client has a mask with a
constant number of ones. A client trains the dense model's values at its mask and sends their changes. Then it moves the
mask for its next participation. A coordinate that grows starts warm: its value comes from the dense model when the
client is next asked.

The paper counts rounds from 0, and edgefl counts from 1.

Source  FedSpa, Alg. 1. ALGORITHMS 3, 4 and 8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.methods import mask_store
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Scored
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.mask_store import MASK, restricted
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_weights
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.density import Distribution
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import annealed, grown, grown_at_random, prune
from edgefl.models.neurons.random_mask import random_mask
from edgefl.models.neurons.sparse_cost import sparse_round
from edgefl.models.neurons.update import Update, changed_by, mask_of


@dataclass(frozen=True)
class FedSpa(EarlyStopping, LocalTraining):
    """The method FedSpa: w <- w - (1/S) sum of U_k, everywhere, over the S clients that reported.

    search               'dst': clients move their masks. 'rsm': clients keep their first mask
    density              share of all weights that a mask has
    distribution         how the density is spread over the layers: 'erk', or 'uniform', the same density in every layer
    masks                first masks: the 'same' mask for all clients, or 'different' masks
    prune_rate           alpha of the paper: share of a mask that leaves in round 1. The share falls to 0 in the last
                         round
    growth               how coordinates enter a mask: by 'gradient', or at 'random'
    floor                whether the number of coordinates that leave is rounded down, as in RigL
    exclude_just_pruned  whether a coordinate that has just left cannot enter again at once

    Masks and densities count the trained weights alone, and frozen weights stay dense. A trained part without
    weights of two or more dimensions is refused.
    """

    name: ClassVar[str] = "fedspa"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    trains_parts: ClassVar[bool] = True
    adapts: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = (MODEL,)
    former: ClassVar[Mapping[str, str]] = {"alpha": "prune_rate"}

    batch: int = 128
    lr: float = 0.1
    lr_decay: float = 0.998
    weight_decay: float = 5e-4
    search: Literal["dst", "rsm"] = "dst"
    density: float = 0.5
    distribution: Distribution = "erk"
    masks: Literal["same", "different"] = "same"
    prune_rate: float = 0.5
    growth: Literal["gradient", "random"] = "gradient"
    floor: bool = False
    exclude_just_pruned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.density <= 1, "density", self.density, "0 < density <= 1")
        check(0 <= self.prune_rate <= 1, "prune_rate", self.prune_rate, "0 <= prune_rate <= 1")

    @property
    def needs_rounds(self) -> bool:
        return self.search == "dst" or super().needs_rounds

    def first_mask(self, spec: ModelSpec, seed: int, client: int) -> Mask:
        """Return m_k,0, the first mask of a client, which server and client draw alike."""
        own = client if self.masks == "different" else 0
        return random_mask(spec, self.density, self.distribution, seed, own)

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check(
            task.rounds >= 1 or self.search == "rsm",
            "rounds",
            task.rounds,
            "rounds >= 1: prune_rate falls over the rounds",
        )
        check_weights(task.spec)
        self.first_mask(task.spec, task.seed, 0)  # a check that there is a first mask
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        held = [self._mask(task, state, k) for k in chosen]
        payloads = {id(mask): {MODEL: take(state.arrays[MODEL], task.spec, mask)} for mask in held}  # once per mask
        return [self._plan(task, round, k, mask, payloads[id(mask)]) for k, mask in zip(chosen, held, strict=True)]

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, plan.round, plan.client, self._mask(task, state, plan.client), plan.payload)

    def _mask(self, task: Task, state: State, client: int) -> Mask:
        """Return m_k,t, the client's mask as far as aggregated replies tell."""
        return mask_store.known(state, task.spec, client) or self.first_mask(task.spec, task.seed, client)

    def _plan(self, task: Task, round: int, client: int, mask: Mask, payload: Mapping[str, Update]) -> Plan:
        settings = {"alpha": annealed(self.prune_rate, round - 1, task.rounds)} if self.search == "dst" else {}
        expects = {MODEL: ExpectedPayload("masked", None, mask)}
        if settings.get("alpha") and mask.bits:
            ones = {name: int(np.count_nonzero(bits)) for name, bits in mask.bits.items()}
            expects[MASK] = ExpectedPayload("mask", tuple(mask.bits), counts=ones)
        held = None if client in task.lost else mask
        return Plan("train", round, client, None, payload, settings, expects=expects, held=held)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)
        if MASK in reply.masks:
            accumulator.masks[reply.client] = reply.masks[MASK]

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        total, count = accumulator.mean.total, max(len(accumulator.mean.clients), 1)
        old = state.arrays[MODEL]  # frozen parameters do not change
        moved = {name: (w - total[name] / count).astype(w.dtype) for name, w in old.items() if name in total}
        model = {**old, **moved}
        return State({**mask_store.aggregated(state, accumulator), MODEL: model})

    # The client.

    def effort(self, examples: int) -> tuple[int, int]:
        steps, seen = super().effort(examples)
        return steps, seen + self._searched(examples)

    def _searched(self, examples: int) -> int:
        """Return how many of `examples` training samples grow the mask."""
        return min(self.batch, examples) if self.search == "dst" and self.growth == "gradient" else 0

    def flops(self, graph: Graph, examples: int) -> float:
        searched = self._searched(examples)
        seen = self.effort(examples)[1] - searched
        return sparse_round(graph, self.density, self.distribution, seen, searched)

    def held(self, client_state: ClientState) -> list[Mask]:
        return mask_store.kept(client_state) or [
            self.first_mask(client_state.spec, client_state.seed, client_state.client)
        ]

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        sent = plan.payload[MODEL]
        mask = new = mask_of(sent)
        with restricted(client_state.learner, mask, self.batch):
            client_state.learner.write(sent)
            fit = client_state.learner.fit(
                client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
            )
            metrics = {"loss": fit.loss_sum / fit.examples}
            change = changed_by(sent, client_state.learner.take(mask))  # U_k, at the old mask
            if MASK in plan.due:
                new = self._moved(client_state, plan, mask, metrics)
        mask_store.keep(client_state, new, mask)
        client_state.private = {**client_state.private, MASK: plan.round}
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: change},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics=metrics,
            masks={MASK: new} if MASK in plan.due else {},
        )

    def _moved(self, client_state: ClientState, plan: Plan, mask: Mask, metrics: dict[str, float]) -> Mask:
        """Return m_k,t+1: the weights of smallest magnitude leave, and as many coordinates enter.

        A coordinate that has left may enter again, unless `exclude_just_pruned` is set.
        """
        values, alpha = client_state.learner.read(mask.bits.keys()), float(plan.settings["alpha"])
        pruned = prune(values, mask.bits, alpha, floor=self.floor, exclude_just_pruned=self.exclude_just_pruned)
        if pruned.nans:
            metrics["nan_weights"] = float(pruned.nans)
        left, counts = Mask.of(client_state.spec, pruned.kept), {name: n for name, n in pruned.counts.items() if n}
        outside = mask if self.exclude_just_pruned else left
        if self.growth == "random":
            random_key = client_state.seed, plan.client, plan.round
            return Mask.of(client_state.spec, grown_at_random(left.bits, counts, *random_key, outside.bits))
        strongest = client_state.learner.strongest(
            client_state.data, self._one_batch(client_state, plan.round), outside, counts
        )
        return Mask.of(client_state.spec, grown(left.bits, strongest))

    def _one_batch(self, client_state: ClientState, round: int) -> NDArray[np.int32]:
        """Return the training samples whose gradient grows the mask."""
        stream = rng.stream(client_state.seed, rng.MASK_BATCH, client_state.client, round)
        return client_state.train[stream.sample(len(client_state.train), min(self.batch, len(client_state.train)))]

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Yield the present dense model under the client's mask."""
        assert shared is not None
        with restricted(client_state.learner, self.held(client_state)[0], self.batch):
            client_state.learner.write(shared)
            yield OwnModel(client_state.learner, client_state.data)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the values at the clients' masks."""
        held = [self._mask(task, state, client) for client in clients]
        payloads = {id(mask): {MODEL: take(state.arrays[MODEL], task.spec, mask)} for mask in held}
        return [Plan("evaluate", round, k, payload=payloads[id(mask)], held=mask) for k, mask in zip(clients, held)]

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        sent = plan.payload[MODEL]
        with restricted(client_state.learner, mask_of(sent), self.batch):
            client_state.learner.write(sent)
            yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch)

    def scored(self, parts: object) -> Scored:
        return "personal"
