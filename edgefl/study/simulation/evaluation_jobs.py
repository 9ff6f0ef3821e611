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
from edgefl.learning import GraphLearner, Learner, Samples
from edgefl.learning.learner import Evaluation
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.adaptation import AdaptedScores, own_scores
from edgefl.methods.rounds.exchange import plan_of, sizes, train_message
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.models.graph import Params
from edgefl.study.simulation.client_player import Keep, Player, whole

Part = Literal["test", "train"]  # part of a client's samples


def rows(split: Split, part: Part) -> NDArray[np.int32]:
    """Return the indices of the samples of that part."""
    return split.test if part == "test" else split.train


def evaluate_each(learner: Learner, samples: Samples, indices: Sequence[NDArray[np.int32]]) -> list[Evaluation]:
    """Return the evaluation of the learner's model on each of these indices."""
    if isinstance(learner, GraphLearner):
        return learner.evaluate_each(samples, indices)
    return [learner.evaluate(samples, index) for index in indices]


@dataclass(frozen=True)
class PersonalEvaluation:
    """The evaluation of a client's own model on parts of its own samples. `common` has the model of clients that have
    never trained, and what the method shares with all clients.
    """

    client: int
    parts: tuple[Part, ...] = ("test",)
    needs_kept: ClassVar[bool] = True

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> AdaptedScores:
        (untrained, shared), algorithm = common, player.cast.algorithm
        split = player.cast.federation.clients[self.client]
        with player.client_state(self.client, kept, untrained) as client_state:
            parts = [rows(split, part) for part in self.parts]
            return own_scores(algorithm, client_state, shared, parts, time.thread_time)


@dataclass(frozen=True)
class NewcomerEvaluation:
    """The evaluation of a client that has never taken part, on its own test samples. `common` has w^0 and the arrays
    of the server's state.

    client  id, which follows the ids of the clients that take part
    """

    client: int
    needs_kept: ClassVar[bool] = False

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> Evaluation:
        (initial, arrays), algorithm = common, player.cast.algorithm
        with (
            player.client_state(self.client, None, initial) as client_state,
            algorithm.newcomer(client_state, arrays) as mine,
        ):
            return mine.evaluate(client_state.test)


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
    """The evaluation of the model of `common` on parts of the samples of some clients, for each client apart."""

    clients: range
    parts: tuple[Part, ...] = ("test",)
    needs_kept: ClassVar[bool] = False

    @property
    def client(self) -> int:
        return self.clients[0]

    def play(
        self, player: Player, kept: StoredClientState | None, common: Sequence[Params], keep: Keep
    ) -> list[list[Evaluation]]:
        (model,), federation = common, player.cast.federation
        splits = [federation.clients[client] for client in self.clients]
        with player.learner(model) as learner:
            by_part = [
                evaluate_each(learner, federation.data, [rows(split, part) for split in splits]) for part in self.parts
            ]
        return [list(scores) for scores in zip(*by_part, strict=True)]


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
