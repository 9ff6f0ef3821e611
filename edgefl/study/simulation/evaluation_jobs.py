"""The evaluation jobs of a player, which resemble the training jobs in client_player.py. evaluation.py decides the
rounds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.experiment.data.split import Split
from edgefl.learning.learner import Evaluation, ExecutedFlops
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.adaptation import Adaptation
from edgefl.methods.rounds.exchange import plan_of, sizes, train_message
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.models.graph import Params
from edgefl.study.simulation.client_player import Keep, Player, whole

Part = Literal["test", "train"]  # part of a client's samples


def rows(split: Split, part: Part) -> NDArray[np.int32]:
    """Return the indices of the samples of that part."""
    return split.test if part == "test" else split.train


class PersonalScores(NamedTuple):
    """The scores of a client's own model, on each part of its samples, and the work that adapted the model before."""

    found: list[Evaluation]
    adaptation: Adaptation


@dataclass(frozen=True)
class PersonalEvaluation:
    """The evaluation of a client's own model on parts of its own samples. `common` has the model of clients that have
    never trained, and what the method shares with all clients.
    """

    client: int
    parts: tuple[Part, ...] = ("test",)
    needs_kept: ClassVar[bool] = True

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> PersonalScores:
        (untrained, shared), algorithm = common, player.cast.algorithm
        split = player.cast.federation.clients[self.client]
        with player.client_state(self.client, kept, untrained) as client_state:
            before, started = client_state.learner.work(), time.thread_time()
            if self.parts == ("test",) and type(algorithm).evaluate is not Algorithm.evaluate:
                found = [algorithm.evaluate(client_state, shared)]
                return PersonalScores(found, _spent(algorithm, client_state, before, started))
            with algorithm.own(client_state, shared) as mine:  # the model is made once for all parts
                spent = _spent(algorithm, client_state, before, started)
                return PersonalScores([mine.evaluate(rows(split, part)) for part in self.parts], spent)


def _spent(algorithm: Algorithm, client_state: ClientState, before: ExecutedFlops, started: float) -> Adaptation:
    """Return the work of a client since the learner had executed `before` and the thread's clock showed `started`."""
    flops = client_state.learner.work().training - before.training
    steps, _ = algorithm.adaptation(len(client_state.train))
    return Adaptation(steps, float(flops), time.thread_time() - started)


class Refreshed(NamedTuple):
    """The result of a refresh, and the bytes of the payload that it downloads."""

    found: Evaluation
    down: int


@dataclass(frozen=True)
class RefreshedEvaluation:
    """The evaluation of a client's own model on its own test samples after a refresh: the client takes what the server
    would send it, trains for some epochs, and forgets both. `common` has the model of untrained clients, and then
    updates.

    plan, shared  as in TrainingJob
    """

    plan: Plan
    shared: Mapping[str, int]
    epochs: int
    needs_kept: ClassVar[bool] = True

    @property
    def client(self) -> int:
        return self.plan.client

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> Refreshed:
        (untrained, *updates), algorithm = common, player.cast.algorithm
        down = train_message(whole(self.plan, self.shared, updates), player.spec, player.cast.settings.values)
        with player.client_state(self.client, kept, untrained) as client_state:
            received = plan_of(down, self.client, player.spec, algorithm.held(client_state))
            with algorithm.refreshed(client_state, received, self.epochs) as mine:
                found = mine.evaluate(client_state.test)
        return Refreshed(found, sizes(down.payload, down.selection).total)


@dataclass(frozen=True)
class GlobalEvaluation:
    """The evaluation of the model of `common` on parts of one client's samples."""

    client: int
    parts: tuple[Part, ...] = ("test",)
    needs_kept: ClassVar[bool] = False

    def play(
        self, player: Player, kept: StoredClientState | None, common: Sequence[Params], keep: Keep
    ) -> list[Evaluation]:
        (model,), federation = common, player.cast.federation
        split = federation.clients[self.client]
        with player.learner(model) as learner:
            return [learner.evaluate(federation.data, rows(split, part)) for part in self.parts]


@dataclass(frozen=True)
class CommonEvaluation:
    """The evaluation of the model of `common` on the test samples that no client owns."""

    client: ClassVar[int] = 0  # any client, because the job needs nothing that a client has
    needs_kept: ClassVar[bool] = False

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Params], keep: Keep) -> Evaluation:
        (model,), samples = common, player.cast.federation.common
        assert samples is not None  # the job is made only if there are such samples
        with player.learner(model) as learner:
            return learner.evaluate(samples)
