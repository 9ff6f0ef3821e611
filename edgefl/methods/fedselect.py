"""FedSelect: the coordinates that change most at a client become personal, a few at a time, and the others are shared.

The file has the server's half and the client's half. A client keeps a model. In a round the server's values come to the
shared coordinates, personal and shared coordinates are trained in turns, and the shared values go back.

Source  Tamirisa et al., "FedSelect: Personalized federated learning with customized selection of parameters for
        fine-tuning" (CVPR 2024), Alg. 1 and 2. ALGORITHMS 7.17
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, FitResult
from edgefl.methods import mask_store
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel, minibatches, passes
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.mask_store import MASK
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_weights
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import prune_count
from edgefl.models.neurons.top_k import largest, magnitudes
from edgefl.models.neurons.update import mask_of

WHOLE = Mask({})


@dataclass(frozen=True)
class FedSelect(EarlyStopping, LocalTraining):
    """The method FedSelect: w_j <- the mean of w_k,j over the clients of a round that share coordinate j. Every client
    counts once.

    epochs    passes in a round over the shared coordinates, with a pass over the personal ones before each
    growth    share of the shared weights of each layer that becomes personal at once
    personal  largest share of all weights that becomes personal
    every     number of rounds between two growths

    Trained weights may become personal. Biases, norms and running statistics stay shared. A trained part without
    weights of two or more dimensions is refused.
    """

    name: ClassVar[str] = "fedselect"
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    trains_parts: ClassVar[bool] = True

    growth: float = 0.05
    personal: float = 0.5
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.growth < 1, "growth", self.growth, "0 <= growth < 1")
        check(0 <= self.personal < 1, "personal", self.personal, "0 <= personal < 1")
        check(self.every >= 1, "every", self.every, "every >= 1")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check_weights(task.spec)
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [self._plan(task, state, round, client) for client in chosen]

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, state, plan.round, plan.client)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the values that each client shares."""
        return [self._plan(task, state, round, client) for client in clients]

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        shared = mask_store.known(state, task.spec, client) or WHOLE
        payload = {MODEL: take(state.arrays[MODEL], task.spec, shared)}
        expects = {MODEL: ExpectedPayload("masked", None, shared)}
        if round % self.every == 0 and self._rate(shared, task.spec) > 0:
            expects[MASK] = ExpectedPayload("mask", tuple(weights(task.spec)))
        held = None if client in task.lost or not shared.bits else shared
        return Plan("train", round, client, None, payload, expects=expects, held=held)

    def _rate(self, shared: Mask, spec: ModelSpec) -> float:
        """Return the share of the shared weights that may become personal."""
        return min(self.growth, max(0.0, 1 - (1 - self.personal) / share(shared, spec)))

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Add a reply. A coordinate that was personal before does not become shared."""
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)
        if MASK in reply.masks:
            before = plan.due[MODEL].mask or WHOLE
            new = bits_of(reply.masks[MASK], accumulator.spec)
            both = {name: bits & new[name] for name, bits in bits_of(before, accumulator.spec).items()}
            accumulator.masks[reply.client] = Mask.of(accumulator.spec, both)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({**mask_store.aggregated(state, accumulator), MODEL: accumulator.mean.over(state.arrays[MODEL])})

    # The client.

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, 2 * self.epochs, self.batch)

    def steps(self, examples: int) -> None:
        """Return None, because a client without personal coordinates takes half of the steps."""

    def flops(self, graph: Graph, examples: int) -> None:
        """Return None, because every client has another mask."""

    def held(self, client_state: ClientState) -> list[Mask]:
        return [*mask_store.kept(client_state), WHOLE]

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        learner, spec, shared = client_state.learner, client_state.spec, mask_of(plan.payload[MODEL])
        learner.write(plan.payload[MODEL])
        before = {name: value.copy() for name, value in learner.read(weights(spec)).items()}
        fits = [fit for epoch in range(self.epochs) for fit in self._passes(client_state, plan.round, epoch, shared)]
        payload, new = {MODEL: learner.take(shared)}, shared
        if MASK in plan.due:
            moved = {name: value - before[name] for name, value in learner.read(before).items()}
            new = fewer(shared, moved, self._rate(shared, spec), spec)
        mask_store.keep(client_state, new, shared)
        loss = sum(fit.loss_sum for fit in fits) / sum(fit.examples for fit in fits)
        return Reply(
            plan.round,
            plan.client,
            payload,
            examples=len(client_state.train),
            steps=sum(fit.steps for fit in fits),
            metrics={"loss": loss, "personal_share": 1 - share(new, spec)},
            masks={MASK: new} if MASK in plan.due else {},
        )

    def _passes(self, client_state: ClientState, round: int, epoch: int, shared: Mask) -> Iterator[FitResult]:
        """Train a pass over the personal coordinates, if there are any, and then a pass over the shared ones. The
        optimizer starts anew in each pass.
        """
        optimizer = self.local_optimizer(round)
        for options, number in ((personal(shared, client_state.spec), self.epochs + epoch), (rest(shared), epoch)):
            if options is not None:
                batches = minibatches(client_state, round, 1, self.batch, number)
                yield client_state.learner.fit(client_state.data, batches, optimizer, options)

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the server's model after `epochs` passes over all of it, because no coordinate is personal yet."""
        client_state.learner.write({name: arrays[MODEL][name] for name in client_state.spec.exchanged})
        mine = OwnModel(client_state.learner, client_state.data)
        yield self.refit(mine, client_state, self.epochs, self.batch)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after passes over the personal coordinates, and then as many over the shared ones."""
        client_state.learner.write(plan.payload[MODEL])
        shared, mine = mask_of(plan.payload[MODEL]), OwnModel(client_state.learner, client_state.data)
        for options in (personal(shared, client_state.spec), rest(shared)):
            if options is not None:
                self.refit(mine, client_state, epochs, self.batch, options=options)
        yield mine


def bits_of(mask: Mask, spec: ModelSpec) -> dict[str, Bits]:
    """Return the bits of every weight, also of weights that are whole."""
    return {name: mask.bits.get(name, np.ones(shape, np.bool_)) for name, shape in weights(spec).items()}


def share(shared: Mask, spec: ModelSpec) -> float:
    """Return the share of all weights that is shared."""
    size = sum(map(math.prod, weights(spec).values()))
    return sum(int(np.count_nonzero(bits)) for bits in bits_of(shared, spec).values()) / size


def fewer(shared: Mask, moved: Mapping[str, Array], rate: float, spec: ModelSpec) -> Mask:
    """Return the shared coordinates without the share `rate` of each weight that moved most, rounded down."""
    found = {}
    for name, bits in bits_of(shared, spec).items():
        positions, found[name] = np.flatnonzero(bits), bits.copy()
        gone = largest(magnitudes(moved[name].reshape(-1)[positions]), prune_count(rate, len(positions), floor=True))
        found[name].reshape(-1)[positions[gone]] = False
    return Mask.of(spec, found)


def personal(shared: Mask, spec: ModelSpec) -> FitOptions | None:
    """Return the options of steps of the personal coordinates, or None if no coordinate is personal."""
    if not shared.bits:
        return None
    none = {name: np.zeros(spec.params[name].shape, np.bool_) for name in spec.learned}
    return FitOptions(trainable=Mask(none | {name: ~bits for name, bits in shared.bits.items()}))


def rest(shared: Mask) -> FitOptions:
    """Return the options of steps of the shared coordinates."""
    return FitOptions(trainable=shared if shared.bits else None)
