"""The progress of a run that a restarted coordinator must know, without anything that can be computed again.

The store makes a Progress from its durable records. A new run starts with an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from edgefl.methods.task import State
from edgefl.methods.throughput import Throughput
from edgefl.server.events import GroupEvent, Outcome, ReplyJudged
from edgefl.server.member_records import OperatorCommand


class Ruling(NamedTuple):
    """The verdict on a client's reply, and its reason."""

    outcome: Outcome
    reason: str


class EarlierRound(NamedTuple):
    """A closed round of an asynchronous run, of which tasks are open.

    clients  clients whose tasks were open when the round after the last closed one began
    places   number of clients that the round had planned
    state    state of the method before the round. None: before round 1
    """

    round: int
    clients: tuple[int, ...]
    places: int
    state: State | None


@dataclass(frozen=True)
class Progress:
    """The durable part of a run.

    capacities  capacities of the enrolled clients
    round       last closed round, 0 before the first
    state       state after that round, None before the first
    done        whether no round follows
    scored      last round whose evaluation is complete, 0 before the first
    opened      clients of the round after `round`, if that has begun
    deadline_s  deadline in seconds of the last round that has begun, if it has one
    candidates  by round, the clients among which its clients were chosen, where they were not all clients
    answers     replies of the open round so far
    group_events  events of the open round's groups so far, with secure aggregation
    secrets     by client, the secret that its device proves in a run without keys
    lives       by client, the last known life of its device's directory
    losses      by (client, after): the client has lost what it kept after the round `after`. The value is the round
                from whose state it goes on, 0 for no state
    declared    by client, its number of training samples, where it has declared the number
    throughputs  by (client, round): the speed of its device, which plans follow from that round on
    provenances  (client, provenance) of every device so far
    refusals    by client, why its device refused, or was refused, if it has not come back since
    removed     by client, why the operator has removed it
    tags        by client, the tags that its device has told
    commands    commands of the operator, in the order in which they were carried out
    keeps_commands  whether the run can keep commands. Runs of earlier versions cannot
    rulings     by (round, client), for every planned client of every round so far, or for those that devices may still
                ask for. None where no reply has come
    earlier     closed rounds with open tasks, in an asynchronous run
    closes      by (round, client): the round that took the reply in, where it was a later round
    trained     by client, the rounds after which it kept what it had trained: bit r for round r
    """

    capacities: Mapping[int, float] = field(default_factory=dict)
    round: int = 0
    state: State | None = None
    done: bool = False
    scored: int = 0
    opened: tuple[int, ...] | None = None
    deadline_s: float | None = None
    candidates: Mapping[int, frozenset[int]] = field(default_factory=dict)
    answers: tuple[ReplyJudged, ...] = ()
    group_events: tuple[GroupEvent, ...] = ()
    rulings: Mapping[tuple[int, int], Ruling | None] = field(default_factory=dict)
    trained: Mapping[int, int] = field(default_factory=dict)
    earlier: tuple[EarlierRound, ...] = ()
    closes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    secrets: Mapping[int, bytes] = field(default_factory=dict)
    lives: Mapping[int, bytes] = field(default_factory=dict)
    losses: Mapping[tuple[int, int], int] = field(default_factory=dict)
    refusals: Mapping[int, str] = field(default_factory=dict)
    provenances: tuple[tuple[int, str], ...] = ()
    removed: Mapping[int, str] = field(default_factory=dict)
    tags: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    commands: tuple[OperatorCommand, ...] = ()
    keeps_commands: bool = True
    declared: Mapping[int, int] = field(default_factory=dict)
    throughputs: Mapping[tuple[int, int], Throughput] = field(default_factory=dict)
