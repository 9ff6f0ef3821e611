"""Sub-FedAvg, unstructured: clients prune masks of their own step by step, and average what they still share.

The file has the server's half and the client's half. A client's mask only loses coordinates. It loses some in a round
under two conditions: the coordinates that the client would prune still changed between its first epoch and its last,
and the model without them is accurate enough.

In the paper a client's test samples decide. Here its validation samples decide, unless `accept_on` says otherwise. Only
weights are pruned, and not norms. The last pruning stops at the density that is asked for. A client is tested with its
mask on the common model [ours].

Source  Sub-FedAvg (Vahidian et al., ICDCS workshops 2021). ALGORITHMS 7.12
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import TrainingError
from edgefl.learning.learner import FitResult
from edgefl.methods import mask_store
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Scored
from edgefl.methods.client_state import ClientState, OwnModel, minibatches
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
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import prune
from edgefl.models.neurons.update import at_mask, mask_of

WHOLE = Mask({})


@dataclass(frozen=True)
class SubFedAvg(EarlyStopping, LocalTraining):
    """The method Sub-FedAvg: w_j <- the mean of w_k,j over the clients that still have coordinate j. Every client
    counts once.

    density     share of all weights at which the pruning of a client's mask ends
    prune_rate  share of the remaining weights that a client prunes at once, in every layer
    distance    smallest share of coordinates, as a mean over layers, in which the masks of the first and the last epoch
                differ
    accuracy    smallest accuracy of the pruned model. Below it the client does not prune in this round
    accept_on   samples that measure the accuracy: 'validation', or 'test' as in the released code

    Clients prune the trained weights alone, and frozen weights stay dense. A trained part without weights of two or
    more dimensions is refused.
    """

    name: ClassVar[str] = "subfedavg"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    trains_parts: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    density: float = 0.5
    prune_rate: float = 0.05
    distance: float = 1e-4
    accuracy: float = 0.5
    accept_on: Literal["validation", "test"] = "validation"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.epochs >= 2,
            "epochs",
            self.epochs,
            "epochs >= 2, as the masks of the first and the last epoch are compared",
        )
        check(0 < self.density <= 1, "density", self.density, "0 < density <= 1")
        check(0 <= self.prune_rate < 1, "prune_rate", self.prune_rate, "0 <= prune_rate < 1")
        check(0 <= self.distance <= 1, "distance", self.distance, "0 <= distance <= 1")
        check(0 <= self.accuracy <= 1, "accuracy", self.accuracy, "0 <= accuracy <= 1")

    @property
    def needs_validation(self) -> bool:
        return super().needs_validation or (self.prune_rate > 0 and self.accept_on == "validation")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check_weights(task.spec)
        is_judged = task.decisions > 0 or not self.prune_rate
        check(is_judged, "loss", task.loss, "a loss with right and wrong answers: a pruned model has to be accurate")
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [self._plan(task, state, round, client) for client in chosen]

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        return self._plan(task, state, plan.round, plan.client)

    def _plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        mask = mask_store.known(state, task.spec, client) or WHOLE
        payload = {MODEL: take(state.arrays[MODEL], task.spec, mask)}
        expects = {MODEL: ExpectedPayload("masked", None, mask)}
        if self.prune_rate and _share(mask, task.spec) > self.density:
            expects[MASK] = ExpectedPayload("mask", tuple(weights(task.spec)))
        held = None if client in task.lost or not mask.bits else mask
        return Plan("train", round, client, None, payload, expects=expects, held=held)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Add a reply. A mask gains no coordinate, because coordinates that the mask lacked do not come with the
        values.
        """
        if MODEL in reply.payload:
            left = at_mask(reply.payload[MODEL], reply.masks.get(MASK, WHOLE))
            accumulator.mean.add(reply.client, left, 1)
            accumulator.masks[reply.client] = mask_of(left)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({**mask_store.aggregated(state, accumulator), MODEL: accumulator.mean.over(state.arrays[MODEL])})

    # The client.

    def held(self, client_state: ClientState) -> list[Mask]:
        return [*mask_store.kept(client_state), WHOLE]

    def flops(self, graph: Graph, examples: int) -> None:
        """Return None, because every client has another mask."""

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mask = new = mask_of(plan.payload[MODEL])
        with restricted(client_state.learner, mask, self.batch):
            client_state.learner.write(plan.payload[MODEL])
            first = self._epochs(client_state, plan, 0, 1)
            early = self._candidate(client_state, mask) if MASK in plan.due else {}
            later = self._epochs(client_state, plan, 1, self.epochs - 1)
            if early:
                new = self._pruned(client_state, mask, early)
            payload = {MODEL: client_state.learner.take(mask)}
        mask_store.keep(client_state, new, mask)
        loss = (first.loss_sum + later.loss_sum) / (first.examples + later.examples)
        return Reply(
            plan.round,
            plan.client,
            payload,
            examples=len(client_state.train),
            steps=first.steps + later.steps,
            metrics={"loss": loss, "density": _share(new, client_state.spec)},
            masks={MASK: new} if MASK in plan.due else {},
        )

    def _epochs(self, client_state: ClientState, plan: Plan, first: int, count: int) -> FitResult:
        """Train `count` epochs from epoch `first` on. Velocities start at zero in each of the two parts of a round."""
        batches = minibatches(client_state, plan.round, count, self.batch, first)
        return client_state.learner.fit(client_state.data, batches, self.local_optimizer(plan.round))

    def _candidate(self, client_state: ClientState, mask: Mask) -> dict[str, Bits]:
        """Return the mask that would be left if the present model were pruned."""
        rate = min(self.prune_rate, max(0.0, 1 - self.density / max(_share(mask, client_state.spec), self.density)))
        bits = _bits(mask, client_state.spec)
        return prune(client_state.learner.read(bits.keys()), bits, rate).kept

    def _pruned(self, client_state: ClientState, mask: Mask, early: Mapping[str, Bits]) -> Mask:
        """Return the client's next mask. Afterwards the learner has the values at the mask, and 0 elsewhere."""
        late = self._candidate(client_state, mask)
        differ = float(np.mean([np.mean(late[name] != bits) for name, bits in early.items()]))
        new = Mask.of(client_state.spec, late)
        if differ <= self.distance or new == mask:
            return mask
        trained = client_state.learner.take(mask)
        client_state.learner.restrict(new, self.batch)
        found = client_state.learner.evaluate(client_state.data, self._judges(client_state))
        if found.correct > self.accuracy * found.examples * found.decisions:
            return new
        client_state.learner.restrict(mask, self.batch)
        client_state.learner.write(trained)
        return mask

    def _judges(self, client_state: ClientState) -> NDArray[np.int32]:
        """Return the samples on which a pruned model has to be accurate. Raises TrainingError if there are
        no samples.
        """
        chosen = client_state.validation if self.accept_on == "validation" else client_state.test
        if not len(chosen):
            raise TrainingError(
                f"client {client_state.client} has 0 {self.accept_on} samples; pruning needs at least 1"
            )
        return chosen

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Yield the present common model under the client's mask."""
        assert shared is not None
        with restricted(client_state.learner, self.held(client_state)[0], self.batch):
            client_state.learner.write(shared)
            yield OwnModel(client_state.learner, client_state.data)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the values at the clients' masks."""
        return [self._plan(task, state, round, client) for client in clients]

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        sent = plan.payload[MODEL]
        with restricted(client_state.learner, mask_of(sent), self.batch):
            client_state.learner.write(sent)
            yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch)

    def scored(self, parts: object) -> Scored:
        return "personal"


def _bits(mask: Mask, spec: ModelSpec) -> dict[str, Bits]:
    """Return the bits of every weight, also of weights that are whole."""
    return {name: mask.bits.get(name, np.ones(shape, np.bool_)) for name, shape in weights(spec).items()}


def _share(mask: Mask, spec: ModelSpec) -> float:
    """Return the share of all weights that the mask has."""
    sizes = {name: math.prod(shape) for name, shape in weights(spec).items()}
    ones = {name: int(np.count_nonzero(bits)) for name, bits in mask.bits.items()}
    return sum(ones.get(name, size) for name, size in sizes.items()) / max(1, sum(sizes.values()))
