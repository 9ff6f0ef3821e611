"""PruneFL: all clients train one sparse model, whose mask one client finds first and the federation adapts later.

The file has the server's half and the client's half. In some rounds clients measure how important every coordinate is,
also outside of the mask, and the server then changes the mask (importance_pruning.py). Coordinates that enter begin
as 0.

The server sends a mask with the values, so that a client keeps nothing [ours].

Source  Jiang et al., "Model pruning enables efficient federated learning on edge devices" (IEEE TNNLS 2022).
        ALGORITHMS 7.20
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel, dropout_key, minibatches
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fine_tuning import FineTuning
from edgefl.methods.mask_store import MASK, packed, restricted, unpacked
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.trained_part_checks import check_weights
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.importance_pruning import PruningRule, reconfigured, shares_of_time
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update, mask_of

IMPORTANCE = "importance"  # payload of the mean squares of gradients


@dataclass(frozen=True)
class PruneFL(EarlyStopping, FineTuning):
    """The method PruneFL: FedAvg of one sparse model whose mask moves every few rounds.

    density         share of all weights that the mask has in the end. 0: the paper's criterion decides how many
    initial_rounds  number of first rounds, in which `first_client` alone takes part and the mask changes each time
    first_client    id of the client that finds the first mask
    every           number of rounds between two later changes of the mask
    prune_rate      share of a mask that may leave in round 1
    half_life       number of rounds in which this share falls to its half
    times           time that a coordinate takes: its layer's multiply-adds ('macs'), or as long as any other ('equal')
    fixed_time      time of a round that no mask shortens, as a share of the time of all weights. The criterion alone
                    reads it

    Clients thin out the trained weights alone, and frozen weights stay dense. A trained part without weights of two
    or more dimensions is refused.
    """

    name: ClassVar[str] = "prunefl"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    trains_parts: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = (IMPORTANCE,)

    density: float = 0.5
    initial_rounds: int = 5
    first_client: int = 0
    every: int = 50
    prune_rate: float = 0.3
    half_life: int = 100
    times: Literal["macs", "equal"] = "macs"
    fixed_time: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.density <= 1, "density", self.density, "0 <= density <= 1")
        check(0 <= self.prune_rate < 1, "prune_rate", self.prune_rate, "0 <= prune_rate < 1")
        check(0 <= self.fixed_time < float("inf"), "fixed_time", self.fixed_time, "a finite fixed_time >= 0")
        for name, least in (("initial_rounds", 0), ("first_client", 0), ("every", 1), ("half_life", 1)):
            check(getattr(self, name) >= least, name, getattr(self, name), f"{name} >= {least}")

    @property
    def is_sparse(self) -> bool:
        """Return whether the mask ever leaves out a coordinate."""
        return self.density < 1 and self.prune_rate > 0

    def changes_mask(self, round: int) -> bool:
        """Return whether the mask changes after a round."""
        later = round - self.initial_rounds
        return self.is_sparse and (later <= 0 or later % self.every == 0)

    def _searches(self, round: int) -> bool:
        """Return whether `first_client` looks for the first mask alone in a round."""
        return self.is_sparse and round <= self.initial_rounds

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        check_weights(task.spec)
        is_there = self.first_client < task.clients or not (self.is_sparse and self.initial_rounds)
        check(is_there, "first_client", self.first_client, f"the id of one of the {task.clients} clients")
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        alone = self._searches(round)
        clients = [self.first_client] if alone else range(task.clients)
        mask = unpacked(task.spec, state.arrays.get(MASK, {}))
        payload = {MODEL: take(state.arrays[MODEL], task.spec, mask)}
        expects = {MODEL: ExpectedPayload("masked", None, mask)}
        if self.changes_mask(round):
            expects[IMPORTANCE] = ExpectedPayload("planned", tuple(weights(task.spec)))
        chosen = sample_clients(task, clients, 1 if alone else self.per_round, round)
        return [Plan("train", round, client, payload=payload, expects=expects) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        for name, update in reply.payload.items():
            mean = accumulator.mean if name == MODEL else accumulator.of(name)
            mean.add(reply.client, update, reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        model = accumulator.mean.over(state.arrays[MODEL])
        if not self.changes_mask(round) or not accumulator.of(IMPORTANCE).clients:
            return State({**state.arrays, MODEL: model})
        zeros = {name: np.zeros(shape) for name, shape in weights(task.spec).items()}
        importance = accumulator.of(IMPORTANCE).over(zeros)
        mask = self._moved(task, unpacked(task.spec, state.arrays.get(MASK, {})), model, importance, round)
        thinned = {name: np.where(bits, model[name], 0).astype(model[name].dtype) for name, bits in mask.bits.items()}
        return State({MODEL: model | thinned} | ({MASK: packed(mask)} if mask.bits else {}))

    def _moved(self, task: Task, mask: Mask, model: Params, importance: Params, round: int) -> Mask:
        shapes = weights(task.spec)
        bits = {name: mask.bits.get(name, np.ones(shape, np.bool_)) for name, shape in shapes.items()}
        rate = self.prune_rate * 0.5 ** ((round - 1) / self.half_life)
        rule = PruningRule(rate, self._count(task.spec), self.fixed_time)
        times = shares_of_time(task.graph if self.times == "macs" else None, bits)
        return Mask.of(task.spec, reconfigured(model, bits, importance, times, rule))

    def _count(self, spec: ModelSpec) -> int | None:
        """Return the number of ones of the mask, or None where the criterion decides."""
        return round(self.density * sum(map(math.prod, weights(spec).values()))) if self.density else None

    # The client.

    def effort(self, examples: int) -> tuple[int, int]:
        steps, seen = super().effort(examples)
        return steps, seen + (examples if self.is_sparse else 0)

    def flops(self, graph: Graph, examples: int) -> None:
        """Return None, because the mask moves."""

    def judges(self, round: int) -> bool:
        """Return whether all clients train in a round. The search for the first mask does not count, because it would
        end with the client that searches.
        """
        return not self._searches(round)

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        sent = plan.payload[MODEL]
        mask = mask_of(sent)
        with restricted(client_state.learner, mask, self.batch):
            client_state.learner.write(sent)
            batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
            fit = client_state.learner.fit(client_state.data, batches, optimizer)
            payload = {MODEL: client_state.learner.take(mask)}
        if IMPORTANCE in plan.due:
            payload[IMPORTANCE] = self._importance(client_state, plan.round)
        return Reply(
            plan.round,
            plan.client,
            payload=payload,
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples, "trained_density": _share(mask, client_state.spec)},
        )

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Yield the common model after the fine-tuning, in which weights that are 0 stay 0."""
        thin = Mask({})
        if self.ft and shared is not None:
            bits = {name: shared[name] != 0 for name in weights(client_state.spec)}
            thin = Mask.of(client_state.spec, bits)
        with restricted(client_state.learner, thin, self.batch), super().own(client_state, shared) as mine:
            yield mine

    def _importance(self, client_state: ClientState, round: int) -> Update:
        """Return the mean over the batches of one more pass of the squared gradient at the trained model.

        Coordinates outside of the mask are 0 in the model and have a gradient, too.
        """
        learner, names = client_state.learner, frozenset(weights(client_state.spec))
        batches, key = learner.joined(minibatches(client_state, round, 1, self.batch, self.epochs)), None
        total = {name: np.zeros(shape) for name, shape in weights(client_state.spec).items()}
        for number, batch in enumerate(batches):
            key = (dropout_key(client_state, round) + number) % 2**64
            for name, slope in learner.gradient(client_state.data, batch, names, key=key).items():
                total[name] += np.square(slope, dtype=np.float64)
        kinds = {name: value.dtype for name, value in learner.read(names).items()}
        found = {name: (value / len(batches)).astype(kinds[name]) for name, value in total.items()}
        return take(found, client_state.spec, None, names=names)


def _share(mask: Mask, spec: ModelSpec) -> float:
    """Return the share of all weights that the mask has."""
    sizes = {name: math.prod(shape) for name, shape in weights(spec).items()}
    absent = sum(sizes[name] - int(np.count_nonzero(bits)) for name, bits in mask.bits.items())
    return 1 - absent / max(1, sum(sizes.values()))
