"""How a round is closed, the same for the simulation and the server: from accepted replies to the state after them.

Whatever is decided about replies beside each other is decided here, in client order, so that a replay agrees. Not
whether a reply may be accepted (exchange.py), nor what the round's metrics say (metrics.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from edgefl.algorithms.base import Algorithm, Plan, Reply, State, Tally, Task
from edgefl.algorithms.fold import MEAN, Fold
from edgefl.rounds import bound
from edgefl.rounds.bound import Bound, Lengths
from edgefl.rounds.exchange import Declared

MAX_EMPTY_ROUNDS = 5  # in a row, after which a run ends with an error


@dataclass(frozen=True)
class Folding:
    """What a run does with accepted replies.

    most_examples  a client that has more samples for training counts as one that has so many; None: no limit
    """

    fold: Fold = MEAN
    bound: Bound = field(default_factory=Bound)
    most_examples: int | None = None

    def declared(self, algorithm: Algorithm, examples: int) -> Declared:
        """What the replies of a client with so many training samples must claim."""
        return Declared(examples, algorithm.steps(examples))


class Closing(NamedTuple):
    """The state after a round; and, by client and in words, which accepted replies were left out of it, which were
    shortened, and as how many samples those count that have too many.
    """

    state: State
    excluded: Mapping[int, str] = {}
    clipped: Mapping[int, str] = {}
    counted: Mapping[int, int] = {}


def close(
    task: Task,
    algorithm: Algorithm,
    state: State,
    accepted: Sequence[tuple[Plan, Reply]],
    round: int,
    folding: Folding,
) -> Closing:
    """Folds the accepted replies of a round in client order. `state` is not changed."""
    accepted = sorted(accepted, key=lambda pair: pair[0].client)
    old = {name: params for name, params in state.arrays.items() if name not in algorithm.changes}
    counted = [_counted(algorithm, reply, folding.most_examples) for _, reply in accepted]
    replies, excluded, short = _bounded(counted, folding, old, task)
    tally = Tally(task.spec, folding.fold, old)
    for plan, _ in accepted:
        if plan.client in replies:
            algorithm.fold(tally, plan, replies[plan.client])
    tally.settle()
    fewer = {new.client: new.examples for (_, reply), new in zip(accepted, counted, strict=True) if new is not reply}
    return Closing(algorithm.finish(task, state, tally, round), excluded, short, fewer)


def _counted(algorithm: Algorithm, reply: Reply, most: int | None) -> Reply:
    """The reply with no more samples, and steps, than count."""
    if most is None or reply.examples <= most:
        return reply
    steps = algorithm.steps(most)
    return replace(reply, examples=most, steps=reply.steps if steps is None else min(reply.steps, steps))


def _bounded(
    replies: Sequence[Reply], folding: Folding, old: bound.Old, task: Task
) -> tuple[dict[int, Reply], dict[int, str], dict[int, str]]:
    """What is folded, by client; which replies are not, and which are shortened by the bound, in words."""
    kind, factor = folding.bound.kind, folding.bound.factor
    if kind == "off" and folding.fold.kind != "clipped":
        return {reply.client: reply for reply in replies}, {}, {}
    found = {reply.client: bound.lengths(reply, old, task.spec) for reply in replies}
    most = bound.bounds(list(found.values()), factor, old, task.spec)
    said = {} if kind == "off" else {client: bound.beyond(each, most) for client, each in found.items()}
    beyond = {client: f"reply of client {client} {why}" for client, why in said.items() if why is not None}
    kept = {reply.client: reply for reply in replies}
    if kind == "clip":
        kept.update({client: bound.clipped(kept[client], found[client], most, old) for client in beyond})
        found.update({client: bound.lengths(kept[client], old, task.spec) for client in beyond})
    elif kind == "refuse":
        kept = {client: reply for client, reply in kept.items() if client not in beyond}
    if folding.fold.kind == "clipped":
        kept = _to_the_median(kept, found, old)
    return kept, beyond if kind == "refuse" else {}, beyond if kind == "clip" else {}


def _to_the_median(kept: Mapping[int, Reply], found: Mapping[int, Lengths], old: bound.Old) -> dict[int, Reply]:
    """The replies with no change longer than the median of what they change."""
    middle = bound.medians([found[client] for client in kept])
    return {client: bound.clipped(reply, found[client], middle, old) for client, reply in kept.items()}
