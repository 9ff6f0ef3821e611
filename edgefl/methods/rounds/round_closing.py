"""The closing of a round, alike in simulation and server: from accepted replies to the state of the next round.

Every decision that compares replies with each other is made here, in client order, so that a replay agrees. exchange.py
decides whether a reply may be accepted, and round_metrics.py makes the round's metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.aggregation import MEAN, AggregationRule
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.early_stopping import after_round
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds import change_bound
from edgefl.methods.rounds.asynchronous import StalenessFactor, at_present
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.exchange import ReplyClaim
from edgefl.methods.rounds.summed_reply import GroupTotal
from edgefl.methods.task import State, Task
from edgefl.models.graph import Graph, Params
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.model_spec import ModelSpec

MAX_EMPTY_ROUNDS = 5  # consecutive rounds without an accepted reply after which a run ends with an error


@dataclass(frozen=True)
class AggregationSettings:
    """The settings for the aggregation of a run's accepted replies.

    aggregation    mean that is taken of the replies
    bound          limit on the changes of a reply
    most_examples  largest number of training samples with which a client counts. None: no limit
    staleness      factor of a reply to a plan of an earlier round, in asynchronous rounds
    """

    aggregation: AggregationRule = MEAN
    bound: UpdateNormBound = field(default_factory=UpdateNormBound)
    most_examples: int | None = None
    staleness: StalenessFactor = field(default_factory=StalenessFactor)

    def declared(self, algorithm: Algorithm, examples: int, graph: Graph | None = None) -> ReplyClaim:
        """Return the claims that the replies of a client with `examples` training samples must make, for a model of
        this graph.
        """
        joins = graph is not None and bool(single_value_norm(graph)) and examples > 1
        return ReplyClaim(examples, algorithm.steps(examples), algorithm.steps(examples - 1) if joins else None)


class AggregationResult(NamedTuple):
    """The state after a round, and what was done to accepted replies, by client.

    state     state after the round
    excluded  reason for each reply that was left out
    clipped   reason for each reply that was shortened
    counted   number of samples with which a client counts that has more than the limit
    limited   number of values, of all replies, whose change was limited before it was rounded. None: the aggregation
              does not round
    """

    state: State
    excluded: Mapping[int, str] = {}
    clipped: Mapping[int, str] = {}
    counted: Mapping[int, int] = {}
    limited: int | None = None


def close(
    task: Task,
    algorithm: Algorithm,
    state: State,
    accepted: Sequence[tuple[Plan, Reply]],
    round: int,
    aggregation_settings: AggregationSettings,
    sums: Sequence[GroupTotal] = (),
    sent: Mapping[int, State] | None = None,
    lengths: Mapping[int, change_bound.Lengths | None] = {},
) -> AggregationResult:
    """Aggregate the accepted replies of a round in client order, and return the state after it. `state` is
    not changed.

    sums  opened sums of groups, whose clients have stand-ins among the replies (summed_reply.py)
    sent  states from which the plans of earlier rounds were made, by client, in asynchronous rounds
    lengths  lengths of the changes of replies from `state`, by client, where they have been measured before
    """
    accepted = sorted(accepted, key=lambda pair: pair[0].client)
    old = values_before(algorithm, state)
    replies = {plan.client: counted(algorithm, reply, aggregation_settings.most_examples) for plan, reply in accepted}
    limited = {plan.client: replies[plan.client].examples for plan, r in accepted if replies[plan.client] is not r}
    shares, weights = aggregation_settings.staleness.factors({p.client: round - p.round for p, _ in accepted})
    for client, before in (sent or {}).items():
        earlier = values_before(algorithm, before)
        replies[client] = at_present(replies[client], earlier, old, task.spec, shares.get(client, 1.0))
    beyond: dict[int, str] = {}
    if aggregation_settings.bound.kind != "off":
        replies, beyond = _bounded(replies, lengths, aggregation_settings.bound, old, task.spec)
    if aggregation_settings.aggregation.kind == "clipped":
        replies = _to_the_median(replies, old, task.spec)
    accumulator = Accumulator(task.spec, aggregation_settings.aggregation, old, task.seed, round, weights)
    taken = [(plan, replies[plan.client]) for plan, _ in accepted if plan.client in replies]
    _add_all(accumulator, algorithm, taken, sums)
    after = algorithm.finish(task, state, accumulator, round)
    after = after_round(task, algorithm, state, after, [c for c in replies if replies[c].status == "stopped"], round)
    is_out = aggregation_settings.bound.kind == "refuse"
    return AggregationResult(after, beyond if is_out else {}, {} if is_out else beyond, limited, accumulator.clipped)


def _add_all(
    accumulator: Accumulator, algorithm: Algorithm, taken: Sequence[tuple[Plan, Reply]], sums: Sequence[GroupTotal]
) -> None:
    """Add replies and opened sums, and close the accumulator."""
    for plan, reply in taken:
        algorithm.aggregate(accumulator, plan, reply)
    for total in sums:
        total.add_to(accumulator)
    accumulator.settle()


def values_before(algorithm: Algorithm, state: State) -> dict[str, Params]:
    """Return the values before a round by payload, without the payloads that carry changes."""
    return {name: params for name, params in state.arrays.items() if name not in algorithm.changes}


def counted(algorithm: Algorithm, reply: Reply, most: int | None) -> Reply:
    """Return the reply with its samples, and its steps, reduced to the limit."""
    if most is None or reply.examples <= most:
        return reply
    steps = algorithm.steps(most)
    return replace(reply, examples=most, steps=reply.steps if steps is None else min(reply.steps, steps))


def _bounded(
    replies: Mapping[int, Reply],
    known: Mapping[int, change_bound.Lengths | None],
    how: UpdateNormBound,
    old: change_bound.Old,
    spec: ModelSpec,
) -> tuple[dict[int, Reply], dict[int, str]]:
    """Return the replies without those beyond the bound, or with these shortened, and the reasons in words.

    known  lengths of the changes, by client, where they have been measured before
    """
    found = {client: known.get(client) or change_bound.lengths(reply, old, spec) for client, reply in replies.items()}
    most = change_bound.bounds(list(found.values()), how.factor, old, spec)
    words = {client: change_bound.beyond(each, most) for client, each in found.items()}
    beyond = {client: f"reply of client {client} {why}" for client, why in words.items() if why is not None}
    kept = {client: reply for client, reply in replies.items() if client not in beyond or how.kind == "clip"}
    return {client: change_bound.clipped(reply, found[client], most, old) for client, reply in kept.items()}, beyond


def _to_the_median(replies: Mapping[int, Reply], old: change_bound.Old, spec: ModelSpec) -> dict[int, Reply]:
    """Return the replies with every change shortened to at most the median length of the changes of its parameter."""
    found = {client: change_bound.lengths(reply, old, spec) for client, reply in replies.items()}
    middle = change_bound.medians(list(found.values()))
    return {client: change_bound.clipped(reply, found[client], middle, old) for client, reply in replies.items()}
