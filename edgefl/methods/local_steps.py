"""The hyper-parameters of local steps and of the selection of clients, shared by methods that train a model.

This module is not a method: it has none of the five verbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from edgefl.learning.fit_options import FitOptions, options_of
from edgefl.learning.learner import Array, Batches
from edgefl.learning.optimizers import Optimizer, Saved
from edgefl.methods.client_state import ClientState, OwnModel, minibatches, passes
from edgefl.methods.optimizer_settings import OptimizerSettings
from edgefl.methods.option_checks import check, check_sgd
from edgefl.methods.plan import Plan
from edgefl.methods.task import MODEL, Task
from edgefl.models.graph import Graph, Params
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.sparse_cost import flops

UNCOUNTED = 0  # round number for the batches of an evaluation, which no training round has


@dataclass(frozen=True)
class LocalSteps(OptimizerSettings):
    """The gradient steps of a model, at a learning rate lr with a schedule.

    saved  number format of the activations that wait for the backward pass: 'fp32', or 'fp16' where that takes less
           memory
    micro_batch  most samples of a batch that pass through the model at once. The gradients of the parts are summed
           before the step. 0 passes whole batches
    """

    lr: float = 0.05
    saved: Saved = "fp32"
    micro_batch: int = 0

    def _check_local(self) -> None:
        """Raise ValueError for a value that is out of range, or that the chosen optimizer does not have."""
        check(0 < self.lr < float("inf"), "lr", self.lr, "a finite lr > 0")
        check(self.micro_batch >= 0, "micro_batch", self.micro_batch, "micro_batch >= 0")
        self._check_steps("lr")

    def rate(self, round: int) -> float:
        """Return the learning rate of a round, numbered from 1."""
        return self.scheduled(self.lr, round)

    def local_optimizer(self, round: int) -> Optimizer:
        """Return the optimizer of a round, numbered from 1."""
        return self.optimizer_at(self.rate(round))

    def optimizer_at(self, rate: float) -> Optimizer:
        found = super().optimizer_at(rate)
        if (found.saved, found.micro_batch) == (self.saved, self.micro_batch):
            return found
        return replace(found, saved=self.saved, micro_batch=self.micro_batch)

    def single_value_norm(self, task: Task, client: int) -> str:
        return "" if task.graph is None else single_value_norm(task.graph)

    def refit(
        self,
        mine: OwnModel,
        client_state: ClientState,
        epochs: int,
        batch: int,
        rate: float = 0.0,
        options: FitOptions = FitOptions(),
        **former: Any,
    ) -> OwnModel:
        """Train a client's model for `epochs` passes that count for no round, in the same order of samples each time.

        mine          model of the client
        client_state  client
        epochs        number of passes
        batch         examples of a step
        rate          learning rate. 0 stands for `lr` without its schedule
        options       what the passes train, and which terms they add to the loss
        former        fields of FitOptions one by one, as `refit` took them formerly. They raise a DeprecationWarning
        """
        options = options_of(options, named=former)
        batches = minibatches(client_state, UNCOUNTED, epochs, batch)
        mine.learner.fit(mine.samples, batches, self.optimizer_at(rate or self.lr), options)
        return mine


@dataclass(frozen=True)
class LocalTraining(LocalSteps):
    """The training of selected clients over their own samples.

    per_round  number of clients that are selected in a round
    epochs     passes over the client's training samples in a round
    batch      examples of a step
    """

    per_round: int = 10
    epochs: int = 5
    batch: int = 16

    def __post_init__(self) -> None:
        check_sgd(self.per_round, self.epochs, self.batch, self.lr)
        self._check_local()

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.epochs, self.batch)

    def steps(self, examples: int) -> int | None:
        """Return the steps of `effort`, or None for a class from outside edgefl that has a `train` of its own and
        leaves `effort` as it is. Its rounds may have other steps, and its replies are then not held to a
        number.
        """
        return self.effort(examples)[0] if _says_its_steps(type(self)) else None

    def flops(self, graph: Graph, examples: int) -> float | None:
        return flops(graph, {}, self.effort(examples)[1])

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        if MODEL in plan.payload:
            client_state.learner.write(plan.payload[MODEL])
        yield self.refit(OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch)

    def batches(self, client_state: ClientState, round: int) -> Batches:
        """Return the batches of a client in a round."""
        return minibatches(client_state, round, self.epochs, self.batch)


@lru_cache(maxsize=64)
def _says_its_steps(kind: type) -> bool:
    """Return whether `effort` speaks of the `train` that a class has."""
    for each in kind.__mro__:
        if not vars(each).keys().isdisjoint(("effort", "steps")) or each.__module__.startswith("edgefl."):
            return True
        if "train" in vars(each):
            return False
    return True


def learnable(params: Mapping[str, Array], spec: ModelSpec) -> Params:
    """Return a copy of the learned parameters, without running statistics and frozen parameters."""
    return {name: params[name].copy() for name, param in spec.params.items() if param.kind == "learn"}


def zeros(params: Mapping[str, Array]) -> Params:
    """Return zeros with the names, shapes and types of these parameters."""
    return {name: np.zeros_like(value) for name, value in params.items()}
