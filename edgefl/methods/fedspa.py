"""FedSpa: sparse personal models, trained from sparse to sparse (DST, SET), or with masks that stay (RSM, SNIP).

The file has the server's half and the client's half. The server has one dense model, and every client has a mask with a
constant number of ones. A client trains the dense model's values at its mask and sends their changes. Then it moves the
mask for its next participation, by the function of mask_search.py that `search` names. A coordinate that grows starts
warm: its value comes from the dense model when the client is next asked.

The paper counts rounds from 0, and edgefl counts from 1.

Source  FedSpa, Alg. 1. ALGORITHMS 3, 4 and 8
"""

from __future__ import annotations

import math
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
from edgefl.methods.client_state import ClientState, OwnModel, dropout_key
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.mask_search import BatchGradient, Growth, NextMask, PruneAndGrow, checked, most_sensitive
from edgefl.methods.mask_store import MASK, restricted
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_weights
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.density import Distribution, counts, weights
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import annealed
from edgefl.models.neurons.random_mask import random_mask
from edgefl.models.neurons.sparse_cost import sparse_round
from edgefl.models.neurons.update import Update, at_mask, changed_by, mask_of

WHOLE = Mask({})


@dataclass(frozen=True)
class FedSpa(EarlyStopping, LocalTraining):
    """The method FedSpa: w <- w - (1/S) sum of U_k, everywhere, over the S clients that reported.

    search               'dst': the weights of smallest magnitude leave a client's mask, and others enter by `growth`.
                         'set': they enter at random. 'rsm': clients keep their first mask, which is random. 'snip':
                         clients keep their first mask, which a client finds by |weight * gradient| of one batch
    density              share of all weights that a mask has
    distribution         how the density is spread over the layers: 'erk', or 'uniform', the same density in every layer
    masks                first masks: the 'same' mask for all clients, or 'different' masks
    prune_rate           alpha of the paper: share of a mask that leaves in round 1. The share falls to 0 in the last
                         round
    growth               how coordinates enter a mask under 'dst': by 'gradient', or at 'random'
    floor                whether the number of coordinates that leave is rounded down, as in RigL
    exclude_just_pruned  whether a coordinate that has just left cannot enter again at once

    Masks and densities count the trained weights alone, and frozen weights stay dense. A trained part without
    weights of two or more dimensions is refused.
    """

    name: ClassVar[str] = "fedspa"
    sums_only: ClassVar[bool] = True
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
    search: Literal["dst", "rsm", "set", "snip"] = "dst"
    density: float = 0.5
    distribution: Distribution = "erk"
    masks: Literal["same", "different"] = "same"
    prune_rate: float = 0.5
    growth: Growth = "gradient"
    floor: bool = False
    exclude_just_pruned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.density <= 1, "density", self.density, "0 < density <= 1")
        check(0 <= self.prune_rate <= 1, "prune_rate", self.prune_rate, "0 <= prune_rate <= 1")

    @property
    def moves(self) -> bool:
        """Return whether clients move their masks after a round."""
        return self.search in ("dst", "set")

    @property
    def needs_rounds(self) -> bool:
        return self.moves or super().needs_rounds

    def next_mask(self, rate: float) -> NextMask:
        """Return the function that moves a client's mask after its training. A subclass may return its own function.

        rate  prune rate of the round
        """
        growth: Growth = "random" if self.search == "set" else self.growth
        return PruneAndGrow(rate, growth, self.floor, self.exclude_just_pruned)

    def first_mask(self, spec: ModelSpec, seed: int, client: int) -> Mask:
        """Return m_k,0, the first mask of a client, which server and client draw alike.

        Under 'snip' it is whole: the client finds its mask when it first takes part.
        """
        if self.search == "snip":
            return WHOLE
        own = client if self.masks == "different" else 0
        return random_mask(spec, self.density, self.distribution, seed, own)

    def ones(self, spec: ModelSpec) -> dict[str, int]:
        """Return the number of coordinates that a mask has of each weight."""
        return counts(weights(spec), self.density, self.distribution)

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check(
            task.rounds >= 1 or not self.moves,
            "rounds",
            task.rounds,
            "rounds >= 1: prune_rate falls over the rounds",
        )
        check_weights(task.spec)
        self.ones(task.spec)  # a check that there is a mask of this density
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        held = [self._mask(task, state, k) for k in chosen]
        payloads = {id(mask): {MODEL: take(state.arrays[MODEL], task.spec, mask)} for mask in held}  # once per mask
        return [
            self._plan(task, state, round, k, mask, payloads[id(mask)]) for k, mask in zip(chosen, held, strict=True)
        ]

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, state, plan.round, plan.client, self._mask(task, state, plan.client), plan.payload)

    def _mask(self, task: Task, state: State, client: int) -> Mask:
        """Return m_k,t, the client's mask as far as aggregated replies tell."""
        return mask_store.known(state, task.spec, client) or self.first_mask(task.spec, task.seed, client)

    def _seeks(self, task: Task, state: State, client: int) -> bool:
        """Return whether the client still has to find its first mask, as far as aggregated replies tell."""
        return self.search == "snip" and self.density < 1 and mask_store.known(state, task.spec, client) is None

    def _plan(
        self, task: Task, state: State, round: int, client: int, mask: Mask, payload: Mapping[str, Update]
    ) -> Plan:
        if self._seeks(task, state, client):
            sizes = {name: math.prod(task.spec.params[name].shape) for name in payload[MODEL].blocks}
            found = ExpectedPayload("chosen", counts={**sizes, **self.ones(task.spec)})
            return Plan("train", round, client, None, payload, expects={MODEL: found})
        settings = {"alpha": annealed(self.prune_rate, round - 1, task.rounds)} if self.moves else {}
        expects = {MODEL: ExpectedPayload("masked", None, mask)}
        if settings.get("alpha") and mask.bits:
            ones = {name: int(np.count_nonzero(bits)) for name, bits in mask.bits.items()}
            expects[MASK] = ExpectedPayload("mask", tuple(mask.bits), counts=ones)
        held = None if client in task.lost else mask
        return Plan("train", round, client, None, payload, settings, expects=expects, held=held)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)
            if plan.due[MODEL].kind == "chosen":
                accumulator.masks[reply.client] = mask_of(reply.payload[MODEL])
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
        if plan.due[MODEL].kind == "chosen":
            sent = at_mask(sent, self._first(client_state, sent, plan.round))
        mask = new = mask_of(sent)
        with restricted(client_state.learner, mask, self.batch):
            client_state.learner.write(sent)
            fit = client_state.learner.fit(
                client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
            )
            metrics = {"loss": fit.loss_sum / fit.examples}
            change = changed_by(sent, client_state.learner.take(mask))  # U_k, at the old mask
            if MASK in plan.due:
                search = self.next_mask(float(plan.settings["alpha"]))
                new = self._found(search, client_state, plan.round, mask.bits, metrics)
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

    def _first(self, client_state: ClientState, sent: Update, round: int) -> Mask:
        """Return the mask that a client finds on the whole model that it was sent."""
        client_state.learner.write(sent)
        everything = {name: np.ones(shape, np.bool_) for name, shape in weights(client_state.spec).items()}
        return self._found(most_sensitive, client_state, round, everything, {})

    def _found(
        self,
        search: NextMask,
        client_state: ClientState,
        round: int,
        old: Mapping[str, Bits],
        metrics: dict[str, float],
    ) -> Mask:
        """Return the mask that `search` finds at the weights in the learner. Report weights that are not numbers."""
        learner, spec, seed, client = client_state.learner, client_state.spec, client_state.seed, client_state.client
        values = learner.read(old.keys())
        if nans := sum(int(np.isnan(values[name][bits]).sum()) for name, bits in old.items()):
            metrics["nan_weights"] = float(nans)
        batch = self._one_batch(client_state, round)
        gradient = BatchGradient(learner, client_state.data, batch, spec, dropout_key(client_state, round))
        density = {name: self.ones(spec)[name] / bits.size for name, bits in old.items()}
        found = search(
            old, values, gradient, density, round, lambda number: rng.stream(seed, rng.MASK, client, round, number)
        )
        return checked(found, {name: self.ones(spec)[name] for name in old}, spec)

    def _one_batch(self, client_state: ClientState, round: int) -> NDArray[np.int32]:
        """Return the training samples whose gradient the search of a mask reads."""
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
        kept = [None if self._seeks(task, state, k) else mask for k, mask in zip(clients, held)]
        return [
            Plan("evaluate", round, k, payload=payloads[id(mask)], held=known)
            for k, mask, known in zip(clients, held, kept)
        ]

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        sent = plan.payload[MODEL]
        with restricted(client_state.learner, mask_of(sent), self.batch):
            client_state.learner.write(sent)
            yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch)

    def scored(self, parts: object) -> Scored:
        return "personal"
