"""The closing of a round, alike in simulation and server: from accepted replies to the state of the next round.

Whatever is decided about replies beside each other is decided here, in client order, so that a replay agrees. Not
whether a reply may be accepted (exchange.py), nor what the round's metrics say (round_metrics.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.aggregation import MEAN, AggregationRule
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds import change_bound
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.exchange import ReplyClaim
from edgefl.methods.task import State, Task
from edgefl.models.graph import Graph
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.model_spec import ModelSpec

MAX_EMPTY_ROUNDS = 5  # in a row, after which a run ends with an error


@dataclass(frozen=True)
class AggregationSettings:
    """The settings for the aggregation of a run's accepted replies.

    most_examples  a client that has more samples for training counts as one that has so many; None: no limit
    """

    aggregation: AggregationRule = MEAN
    bound: UpdateNormBound = field(default_factory=UpdateNormBound)
    most_examples: int | None = None

    def declared(self, algorithm: Algorithm, examples: int, graph: Graph | None = None) -> ReplyClaim:
        """The claims that the replies of a client with so many training samples must make, for a model with
        this graph.
        """
        joins = graph is not None and bool(single_value_norm(graph)) and examples > 1
        return ReplyClaim(examples, algorithm.steps(examples), algorithm.steps(examples - 1) if joins else None)


class AggregationResult(NamedTuple):
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
    aggregation_settings: AggregationSettings,
) -> AggregationResult:
    """Folds the accepted replies of a round in client order. `state` is not changed."""
    accepted = sorted(accepted, key=lambda pair: pair[0].client)
    old = {name: params for name, params in state.arrays.items() if name not in algorithm.changes}
    replies = {plan.client: _counted(algorithm, reply, aggregation_settings.most_examples) for plan, reply in accepted}
    counted = {plan.client: replies[plan.client].examples for plan, r in accepted if replies[plan.client] is not r}
    beyond: dict[int, str] = {}
    if aggregation_settings.bound.kind != "off":
        replies, beyond = _bounded(replies, aggregation_settings.bound, old, task.spec)
    if aggregation_settings.aggregation.kind == "clipped":
        replies = _to_the_median(replies, old, task.spec)
    accumulator = Accumulator(task.spec, aggregation_settings.aggregation, old)
    for plan, _ in accepted:
        if plan.client in replies:
            algorithm.aggregate(accumulator, plan, replies[plan.client])
    accumulator.settle()
    after = algorithm.finish(task, state, accumulator, round)
    is_out = aggregation_settings.bound.kind == "refuse"
    return AggregationResult(after, beyond if is_out else {}, {} if is_out else beyond, counted)


def _counted(algorithm: Algorithm, reply: Reply, most: int | None) -> Reply:
    """The reply with no more samples, and steps, than count."""
    if most is None or reply.examples <= most:
        return reply
    steps = algorithm.steps(most)
    return replace(reply, examples=most, steps=reply.steps if steps is None else min(reply.steps, steps))


def _bounded(
    replies: Mapping[int, Reply], how: UpdateNormBound, old: change_bound.Old, spec: ModelSpec
) -> tuple[dict[int, Reply], dict[int, str]]:
    """The replies without those that go beyond the bound, or with these shortened; and, in words, why."""
    found = {client: change_bound.lengths(reply, old, spec) for client, reply in replies.items()}
    most = change_bound.bounds(list(found.values()), how.factor, old, spec)
    words = {client: change_bound.beyond(each, most) for client, each in found.items()}
    beyond = {client: f"reply of client {client} {why}" for client, why in words.items() if why is not None}
    kept = {client: reply for client, reply in replies.items() if client not in beyond or how.kind == "clip"}
    return {client: change_bound.clipped(reply, found[client], most, old) for client, reply in kept.items()}, beyond


def _to_the_median(replies: Mapping[int, Reply], old: change_bound.Old, spec: ModelSpec) -> dict[int, Reply]:
    """The replies with no change longer than the median of what they change."""
    found = {client: change_bound.lengths(reply, old, spec) for client, reply in replies.items()}
    middle = change_bound.medians(list(found.values()))
    return {client: change_bound.clipped(reply, found[client], middle, old) for client, reply in replies.items()}
