"""The common part of methods that train a personal head alone and then take one gradient of the body.

This module is not a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.optimizers import Optimizer
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.optimizer_settings import OptimizerSettings
from edgefl.methods.option_checks import check
from edgefl.methods.personal_head import HeadInit, Personal, begin
from edgefl.methods.plan import Plan
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class HeadTraining(EarlyStopping, OptimizerSettings):
    """The settings of methods that train heads. The head's optimizer starts anew in every round. Both rates follow the
    schedule.

    per_round   r, the clients selected in a round
    tau         gradient steps of a head in a round
    beta        learning rate of the head's steps on features that are computed once
    rho         learning rate of the server
    chunk       examples per pass through the body. Equal chunks give equal bits on devices with the same instruction
                set. Different chunks differ by the rounding of sums
    head_init   head of a client before its first round (personal_head.py)
    eval_point  'post_local' adds the test result of the client's model after training to a reply. 'none' does not
    """

    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    no_statistics: ClassVar[bool] = True

    per_round: int = 10
    tau: int = 50
    beta: float = 0.006
    rho: float = 0.003
    chunk: int = 128
    head_init: HeadInit = "torch"
    eval_point: Literal["none", "post_local"] = "none"

    def __post_init__(self) -> None:
        for name in ("per_round", "tau", "chunk"):
            check(getattr(self, name) >= 1, name, getattr(self, name), f"{name} >= 1")
        check(0 <= self.beta < float("inf"), "beta", self.beta, "a finite beta >= 0")
        check(0 < self.rho < float("inf"), "rho", self.rho, "a finite rho > 0")
        self._check_steps("beta", "rho")
        self.check_stopping()

    def start(self, task: Task, initial: Params) -> State:
        """Make the state before round 1. Raises ValueError for a model with running statistics, or without a body or a
        head.
        """
        stats = [name for name, param in task.spec.params.items() if param.kind == "stat"]
        still = "no running statistics that move, as with --train=-*.running_*: the gradient of a batch has none"
        check(not stats, "model", ", ".join(stats[:2]), still)
        return begin(initial, task)

    def head_optimizer(self, round: int) -> Optimizer:
        """Return the optimizer of the head's steps on features in a round."""
        return self.optimizer_at(self.scheduled(self.beta, round))

    def effort(self, examples: int) -> tuple[int, int]:
        return self.tau, examples

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after `epochs` steps of the head, each over all samples. Only the server trains the body."""
        mine = Personal.of(client_state, values(plan.payload[BODY]), self.head_init)
        mine.head_steps(epochs, self.optimizer_at(self.beta), self.chunk)
        yield mine.model

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the common body under a new head after `tau` steps of the head."""
        mine = Personal.of(client_state, arrays[BODY], self.head_init)
        mine.head_steps(self.tau, self.optimizer_at(self.beta), self.chunk)
        yield mine.model

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        mine = Personal.of(client_state, shared, self.head_init)
        yield mine.model

    @contextmanager
    def judged(self, client_state: ClientState, plan: Plan) -> Iterator[OwnModel]:
        """Yield the body that the learner holds under the client's head."""
        held = client_state.learner.read(client_state.spec.body)
        with self.own(client_state, {name: value.copy() for name, value in held.items()}) as mine:
            yield mine
