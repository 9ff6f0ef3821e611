"""Early stopping: a client leaves the run when its own loss rises. It is a setting of every method that has this base.

This module is not a method. `train` is the client's half, which surrounds a method's own training. `after_round` and
`plans` are the server's half, which surround a method's `finish` and `plan`. They do nothing without `es`.

Source  FedSPU (AAAI), Alg. 2. ALGORITHMS 2
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgefl.errors import TrainingError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply, Status
from edgefl.methods.task import State, Task

RUNNING = "running"  # entry of the server's state: ids of the clients that have not stopped


@dataclass(frozen=True)
class EarlyStopping(Algorithm):
    """The settings of early stopping.

    es           whether a client stops when L rises between two of its participations
    es_ties      what follows a loss that equals the last loss: 'continue' (Alg. 2), or 'stop' as in the released code
    es_set       samples of L_val: the carved validation data ('carve'), or the test data ('test') as in the paper
    es_patience  number of participations in a row in which L must rise before a client stops. 1 is the paper's rule
    es_tolerance  amount by which L must rise to count. 0 is the paper's rule, under which rounding may decide

    L is `loss_share` of the training loss and the rest of L_val.
    """

    es: bool = False
    es_ties: Literal["continue", "stop"] = "continue"
    es_set: Literal["carve", "test"] = "carve"
    es_patience: int = 1
    es_tolerance: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # the settings of steps define __post_init__
        self.check_stopping()

    def check_stopping(self) -> None:
        """Raise ValueError for a value that is out of range."""
        check(self.es_patience >= 1, "es_patience", self.es_patience, "es_patience >= 1")
        tolerance = self.es_tolerance
        check(0 <= tolerance < float("inf"), "es_tolerance", tolerance, "a finite es_tolerance >= 0")

    @property
    def needs_validation(self) -> bool:
        return self.es and self.es_set == "carve"

    @property
    def loss_share(self) -> float:
        """The weight of the training loss in L. The paper has 0.7."""
        return 0.7

    @property
    def remembers(self) -> bool:
        return self.keeps_state or self.es

    def judges(self, round: int) -> bool:
        """Client: return whether the loss of this round counts. A client does not stop in a round that does not
        count.
        """
        return True

    def leave(self, client_state: ClientState) -> None:
        """Client: forget what only a later round would need, because the client stops."""

    @contextmanager
    def judged(self, client_state: ClientState, plan: Plan) -> Iterator[OwnModel]:
        """Client: yield the model that has just been trained by `plan`, whose loss decides."""
        yield OwnModel(client_state.learner, client_state.data)


# The client.


def train(algorithm: Algorithm, client_state: ClientState, plan: Plan) -> Reply:
    """Train by a plan. Under early stopping a client that has stopped does not train, and a client that has trained
    says whether it stops.

    Raises  TrainingError for a client without samples of `es_set`, or a reply without the loss of its training
    """
    if not (isinstance(algorithm, EarlyStopping) and algorithm.es):
        return algorithm.train(client_state, plan)
    if client_state.private.get("status") == "stopped":
        selection_hash = b"" if plan.selection is None else plan.selection.hash()
        return Reply(plan.round, plan.client, selection_hash=selection_hash, status="stopped")
    reply = algorithm.train(client_state, plan)
    if not algorithm.judges(plan.round):
        return reply
    metrics = dict(reply.metrics)
    status = _judge(algorithm, client_state, plan, metrics)
    if status == "stopped":
        algorithm.leave(client_state)
    return replace(reply, status=status, metrics=metrics)


def _judge(algorithm: EarlyStopping, client_state: ClientState, plan: Plan, metrics: dict[str, float]) -> Status:
    """Compare L with the L of the client's previous participation, and remember both L and the verdict."""
    held_out = client_state.validation if algorithm.es_set == "carve" else client_state.test
    if len(held_out) == 0:
        part = "validation" if algorithm.es_set == "carve" else "test"
        raise TrainingError(f"client {client_state.client} has 0 {part} samples; early stopping needs at least 1")
    if "loss" not in metrics:
        raise TrainingError(f"{algorithm.name} replies without the metric loss; early stopping needs the training loss")
    share = algorithm.loss_share
    with algorithm.judged(client_state, plan) as model:
        held = model.evaluate(held_out)
    metrics["validation_loss"] = held.loss_sum / held.examples
    metrics["L"] = loss = share * metrics["loss"] + (1 - share) * metrics["validation_loss"]
    private = dict(client_state.private)
    status = verdict(loss, private.get("L_prev"), algorithm.es_ties, algorithm.es_tolerance)
    if algorithm.es_patience > 1:  # the paper's rule keeps no count
        private["rises"] = rises = int(private.get("rises", 0)) + 1 if status == "stopped" else 0
        status = "stopped" if rises >= algorithm.es_patience else "on"
    client_state.private = {**private, "L_prev": loss, "status": status}
    return status


def verdict(loss: float, previous: float | None, ties: str, tolerance: float = 0.0) -> Status:
    """Return 'stopped' if the loss rose by more than `tolerance` since the client's previous participation. The first
    participation never stops.
    """
    if previous is None:
        return "on"
    most = previous + tolerance
    return "stopped" if loss > most or (ties == "stop" and loss == most) else "on"


# The server.


def plans(algorithm: Algorithm, task: Task, state: State, round: int) -> list[Plan]:
    """Plan a round among the clients that have not stopped."""
    running = state.values.get(RUNNING) if isinstance(algorithm, EarlyStopping) and algorithm.es else None
    if running is not None:
        left = frozenset(running)
        task = replace(task, candidates=left if task.candidates is None else left & task.candidates)
    return algorithm.plan(task, state, round)


def after_round(
    task: Task, algorithm: Algorithm, state: State, after: State, stopped: Collection[int], round: int
) -> State:
    """Return the state after a round with the clients that run, where `after` is what `finish` made of `state`."""
    if not (isinstance(algorithm, EarlyStopping) and algorithm.es):
        return after
    known = after.values if RUNNING in after.values else state.values
    found = runners(known, task.clients, stopped, int(getattr(algorithm, "per_round", 1)), round)
    return replace(after, values={**after.values, **found})


def runners(
    values: Mapping[str, Any], clients: int, stopped: Collection[int], per_round: int, round: int
) -> dict[str, Any]:
    """Return the entries of the server's state about clients that run, after a round in which some have stopped.

    running      ids of the clients that run
    round_lt_C   first round after which fewer clients run than a round selects, or None
    round_empty  round after which no client runs, or None
    """
    running = [client for client in values.get(RUNNING, range(clients)) if client not in stopped]
    scarce, empty = values.get("round_lt_C"), values.get("round_empty")
    if scarce is None and len(running) < min(per_round, clients):
        scarce = round
    if empty is None and not running:
        empty = round
    return {RUNNING: running, "round_lt_C": scarce, "round_empty": empty}
