"""The few learners that play all clients of a simulation, and their jobs. Files and rounds are handled elsewhere.

The models of a hundred clients are never in memory at once. A client's model is written into one of the learners, and
the state that the client keeps is handed back. A player and a job are values that another process may be given.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner, Learner
from edgefl.learning.learner import MakeLearner
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.carrier import carrier_of
from edgefl.methods.rounds.change_bound import Lengths, Old
from edgefl.methods.rounds.client_round import trained
from edgefl.methods.rounds.diagnosis import GradientSquares, gradient_squares
from edgefl.methods.rounds.direct_exchange import UpdateFacts, is_own
from edgefl.methods.rounds.exchange import message_of
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model, Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update

Keep = Callable[[StoredClientState], None]


class SimulationContext(NamedTuple):
    """The values that clients are played with: their method, their samples, the parameters before round 1, and the
    function that makes the learners.
    """

    algorithm: Algorithm
    federation: Federation
    initial: Params
    settings: Settings
    make: MakeLearner = GraphLearner


class Player:
    """Learners that stand for all clients. As many threads as `learners` may use a player at the same time."""

    def __init__(self, cast: SimulationContext, learners: int) -> None:
        self.cast = cast
        self.spec = ModelSpec.of(cast.federation.graph)
        self.facts = UpdateFacts(self.spec)
        self._idle: SimpleQueue[Learner] = SimpleQueue()
        for _ in range(learners):
            copy = {name: value.copy() for name, value in cast.initial.items()}
            self._idle.put(cast.make(Model(cast.federation.graph, copy)))

    @contextmanager
    def learner(self, params: Mapping[str, np.ndarray] | None) -> Iterator[Learner]:
        """Yield a learner that holds a copy of `params`, for the length of the with block.

        params  None: the learner holds values of another client, and its user writes all of them before any is read
        """
        learner = self._idle.get()
        try:
            if params is not None:
                learner.write({name: params[name] for name in self.spec.exchanged})
            yield learner
        finally:
            self._idle.put(learner)

    @contextmanager
    def client_state(
        self,
        client: int,
        kept: StoredClientState | None,
        untrained: Params | None,
        before: Params | None = None,
    ) -> Iterator[ClientState]:
        """Yield the client with what it keeps. Its model is `untrained` if it has never trained, or keeps no model.

        untrained  None: as for `learner`
        before     as for ClientState
        """
        kept = kept or StoredClientState({}, {}, {})
        federation = self.cast.federation
        split = federation.samples_of(client)
        with self.learner(kept.params or untrained) as learner:
            yield ClientState(
                client,
                federation.seed,
                self.spec,
                learner,
                federation.data,
                split.train,
                split.validation,
                split.test,
                kept.private,
                kept.arrays,
                before,
            )


class Job(Protocol):
    """The task of a player as one client.

    needs_kept  whether the job is given what the client keeps
    """

    @property
    def client(self) -> int: ...

    @property
    def needs_kept(self) -> bool: ...

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> Any:
        """Return the job's result.

        kept    what the client keeps, or None
        common  values that all jobs of one call share
        keep    function that gets the client's new state, if the state changed. The state is valid during the call only
        """


class Outcome(NamedTuple):
    """The reply to aggregate, if any, its record for the metrics, whether the client has kept something new, what a
    diagnosis has measured before the training, and the lengths of the reply's changes, if they were asked for.
    """

    reply: Reply | None
    record: ClientRound
    has_kept: bool = False
    squares: GradientSquares | None = None
    lengths: Lengths | None = None


@dataclass(frozen=True)
class TrainingJob:
    """One client's part of a round: the message down, training, the message up.

    plan    plan without the updates that are in `common`
    shared  name of a payload -> its index in `common`
    late    whether the reply comes too late to be aggregated
    is_diagnosed  whether the client's gradient is measured before the training
    is_checked    whether messages are made although none are needed, and compared with what is passed on without them
    before  index in `common` of the values before the round, from which the reply's changes are measured while the
            processor's caches have the reply. None: they are not measured
    """

    plan: Plan
    shared: Mapping[str, int]
    late: bool = False
    is_diagnosed: bool = False
    is_checked: bool = False
    before: int | None = None
    needs_kept: ClassVar[bool] = True

    @property
    def client(self) -> int:
        return self.plan.client

    def play(self, player: Player, kept: StoredClientState | None, common: Sequence[Any], keep: Keep) -> Outcome:
        plan, spec = whole(self.plan, self.shared, common), player.spec
        algorithm, federation, initial, settings, _ = player.cast
        carrier = carrier_of(algorithm, plan, spec, settings.values, player.facts, self.is_checked)
        untrained = None if is_overwritten(algorithm, plan, spec) else initial
        old = None if self.before is None else common[self.before]
        before = old.get(MODEL) if old is not None and carrier.measures else None
        with player.client_state(plan.client, kept, untrained, before) as client_state:
            received = carrier.received(algorithm.held(client_state))
            squares = gradient_squares(algorithm, client_state, received) if self.is_diagnosed else None
            reply, seconds = trained(algorithm, federation.graph, client_state, received, time.thread_time)
            declared = settings.aggregation_settings.declared(algorithm, len(client_state.train))
            answer = carrier.answer(reply, received, seconds, declared, old)
            has_kept = algorithm.remembers and (answer.reply is not None or self.late)
            if has_kept:
                own = client_state.learner.read(spec.exchanged) if algorithm.keeps_model else {}
                keep(StoredClientState(own, client_state.private, client_state.arrays))
        record = ClientRound.answered(plan, carrier.down, message_of(reply, {}, seconds), answer)
        if self.late:
            return Outcome(None, replace(record, status="late"), has_kept)
        return Outcome(answer.reply, record, has_kept, squares, answer.lengths)


def is_overwritten(algorithm: Algorithm, plan: Plan, spec: ModelSpec) -> bool:
    """Return whether a method writes the values of a plan into the whole model before it reads any value of the model.

    The methods of edgefl that keep no model do so if a plan has all values. A method from elsewhere may do otherwise.
    """
    if algorithm.keeps_model or not is_own(algorithm) or MODEL not in plan.payload:
        return False
    blocks = plan.payload[MODEL].blocks
    return blocks.keys() == set(spec.exchanged) and all(block.index is None for block in blocks.values())


def trainings(
    plans: Sequence[Plan],
    late: Collection[int],
    is_diagnosed: bool = False,
    check_wire: int = 0,
    before: Old | None = None,
    is_apart: bool = True,
) -> tuple[list[TrainingJob], list[Any]]:
    """Return a training job for every plan, and the values that the jobs share: once each update that more than one
    plan sends, and `before`.

    late        clients whose replies come too late
    check_wire  every so many jobs the messages are made and compared. 0: only for the first job
    before      values before the round, from which the changes of replies are measured. None: they are not measured
    is_apart    as for `shared_out`
    """
    parts, common = shared_out(plans, is_apart)
    checked = {0, *(range(0, len(parts), check_wire) if check_wire else ())}
    place = None if before is None else len(common)
    jobs = [
        TrainingJob(part, positions, part.client in late, is_diagnosed, at in checked, place)
        for at, (part, positions) in enumerate(parts)
    ]
    return jobs, common if before is None else [*common, before]


def shared_out(plans: Sequence[Plan], is_apart: bool = True) -> tuple[list[tuple[Plan, dict[str, int]]], list[Update]]:
    """Return each plan without updates that several plans send, with its indices into these, and the updates.

    is_apart  whether the plans are for other processes. Otherwise each plan stays whole, and no update is shared out
    """
    if not is_apart:
        return [(plan, {}) for plan in plans], []
    sent = [update for plan in plans for update in plan.payload.values()]
    times = Counter(map(id, sent))
    common = list({id(update): update for update in sent if times[id(update)] > 1}.values())
    positions = {id(update): position for position, update in enumerate(common)}
    parts = []
    for plan in plans:
        shared = {name: positions[id(update)] for name, update in plan.payload.items() if id(update) in positions}
        own = {name: update for name, update in plan.payload.items() if name not in shared}
        parts.append((replace(plan, payload=own), shared))
    return parts, common


def whole(plan: Plan, positions: Mapping[str, int], common: Sequence[Update]) -> Plan:
    """Put the shared updates back into one plan, as the inverse of `shared_out`."""
    if not positions:
        return plan
    return replace(plan, payload={**plan.payload, **{name: common[position] for name, position in positions.items()}})
