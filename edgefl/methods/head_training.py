"""The common part of methods that train a personal head alone and then take one gradient of the body.

This module is not a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from edgefl.errors import GraphError
from edgefl.learning.optimizers import Optimizer
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.optimizer_settings import OptimizerSettings
from edgefl.methods.option_checks import check
from edgefl.methods.own_head import OwnHead
from edgefl.methods.plan import Plan
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.graph.heads import cut_before, drops_after
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class HeadTraining(OwnHead, EarlyStopping, OptimizerSettings):
    """The settings of methods that train heads. The head's optimizer starts anew in every round. Both rates follow the
    schedule.

    per_round   r, the clients selected in a round
    tau         gradient steps of a head in a round
    beta        learning rate of the head's steps on features that are computed once
    rho         learning rate of the server
    chunk       examples per pass through the body. Equal chunks give equal bits on devices with the same instruction
                set. Different chunks differ by the rounding of sums

    A head of several layers must follow from one result of the model, on which its steps are taken, and drop nothing.
    """

    no_statistics: ClassVar[bool] = True

    per_round: int = 10
    tau: int = 50
    beta: float = 0.006
    rho: float = 0.003
    chunk: int = 128

    def __post_init__(self) -> None:
        for name in ("per_round", "tau", "chunk"):
            check(getattr(self, name) >= 1, name, getattr(self, name), f"{name} >= 1")
        check(0 <= self.beta < float("inf"), "beta", self.beta, "a finite beta >= 0")
        check(0 < self.rho < float("inf"), "rho", self.rho, "a finite rho > 0")
        self._check_steps("beta", "rho")
        self.check_stopping()
        self.check_head()

    def start(self, task: Task, initial: Params) -> State:
        """Make the state before round 1. Raises ValueError for a model with running statistics, or without a body or a
        head, or whose head does not follow from one result.
        """
        stats = [name for name, param in task.spec.params.items() if param.kind == "stat"]
        still = "no running statistics that move, as with --train=-*.running_*: the gradient of a batch has none"
        check(not stats, "model", ", ".join(stats[:2]), still)
        self.cut(task)
        return super().start(task, initial)

    def cut(self, task: Task) -> dict[str, str]:
        """Server: return the setting of a plan that names the result which a head of several layers reads.

        The dictionary is empty for a head of one layer. Raises ValueError if there is no such result, or if the head
        drops values.
        """
        if self.head_layers == 1:
            return {}
        if task.graph is None:
            raise ValueError(f"head_layers={self.head_layers} of a model without a graph; expected head_layers=1")
        try:
            cut = cut_before(task.graph, self.head(task.spec))
        except GraphError as error:
            raise ValueError(
                f"head_layers={self.head_layers}: {error}, or fedper, whose heads need no single input"
            ) from None
        if dropout := drops_after(task.graph, cut):
            raise ValueError(
                f"head_layers={self.head_layers} has the dropout layer {dropout} in the head; expected a head without "
                "dropout, as its steps and the joint gradient minimise one loss: fedper takes such a head"
            )
        return {"cut": cut}

    def head_optimizer(self, round: int) -> Optimizer:
        """Return the optimizer of the head's steps on features in a round."""
        return self.optimizer_at(self.scheduled(self.beta, round))

    def effort(self, examples: int) -> tuple[int, int]:
        return self.tau, examples

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after `epochs` steps of the head, each over all samples. Only the server trains the body."""
        mine = self.personal(client_state, values(plan.payload[BODY]))
        mine.head_steps(epochs, self.optimizer_at(self.beta), self.chunk, cut_of(plan))
        yield mine.model

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the common body under a new head after `tau` steps of the head."""
        mine, optimizer = self.personal(client_state, arrays[BODY]), self.optimizer_at(self.beta)
        if self.head_layers == 1:
            mine.head_steps(self.tau, optimizer, self.chunk)
        else:
            mine.whole_steps(self.tau, optimizer)  # no plan has named the cut of a head of several layers
        yield mine.model

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        plans = super().refreshes(task, state, round, clients)
        return [replace(plan, settings=self.cut(task)) for plan in plans]


def cut_of(plan: Plan) -> str:
    """Return the name of the result that the head reads, or "" for a head of one layer."""
    return str(plan.settings["cut"]) if "cut" in plan.settings else ""
