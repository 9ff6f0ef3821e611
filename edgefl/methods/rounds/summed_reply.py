"""A reply as whole numbers that are summed before anybody sees them, and the sum of a group of replies.

A client makes a Summand of its reply. The server gets the sum of weight x summand over a group, and no single summand.
A stand-in for each client of the group goes through the method's `aggregate`. It has the values that the client was
sent, so that it adds the client's weight and no change. The group's sum is added afterwards.
So a round of sums gives the state, to the last bit, that `--aggregation exact` gives with the replies themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from edgefl.errors import PlanError, TrainingError
from edgefl.methods.exact_mean import ExactMean
from edgefl.methods.fixed_point import BY_KIND, FixedPoint, RoundingName, Whole, bits_of, rounded_changes
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.reply_layout import FIGURES, ReplyLayout
from edgefl.methods.weighted_mean import put_at, values_at
from edgefl.models.neurons.update import Block, Update

if TYPE_CHECKING:
    from edgefl.methods.accumulator import Accumulator
    from edgefl.methods.algorithm import Algorithm
    from edgefl.methods.rounds.reply_claim import ReplyClaim
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import ModelSpec

LOSS = FixedPoint(2.0**-12, 32.0)
SHARE = FixedPoint(2.0**-16, 1.0)
MOST = max(fixed.most for fixed in (*BY_KIND.values(), LOSS, SHARE))  # largest whole number of a value


class Summand(NamedTuple):
    """A client's part of a group's sum, before it is weighted.

    layout   places of the values
    numbers  int32, changes as whole numbers. The figures follow, of which `clipped` is the number of clipped values
    """

    layout: ReplyLayout
    numbers: np.ndarray


class GroupTotal(NamedTuple):
    """The opened sum of a group.

    clients  clients whose vectors are in the sum, ascending
    layout   places of the values
    numbers  int64, sums of weight x whole number, and sums of the figures
    """

    clients: tuple[int, ...]
    layout: ReplyLayout
    numbers: Whole

    @staticmethod
    def of(clients: tuple[int, ...], layout: ReplyLayout, opened: np.ndarray) -> GroupTotal:
        """Return the total of an opened vector, uint32 or uint64, in two's complement."""
        signed = np.int32 if opened.dtype == np.uint32 else np.int64
        return GroupTotal(clients, layout, opened.view(signed).astype(np.int64))

    def add_to(self, accumulator: Accumulator) -> None:
        """Add the sums to a round whose means are exact, and whose stand-ins have added the weights."""
        values, figures = self.layout.split(self.numbers)
        for place in self.layout.places:
            mean = accumulator.of(place.payload)
            assert isinstance(mean, ExactMean)
            mean.add_sum(place.parameter, place.index, values[place.payload, place.parameter])
        accumulator.count_clipped(figures["clipped"])

    def metrics(self) -> dict[str, float]:
        """Return the mean loss of the training, and the mean accuracy after it where clients have test samples."""
        _, figures = self.layout.split(self.numbers)
        found = {"loss": figures["loss"] * LOSS.step / len(self.clients)}
        if figures["tested"] > 0:
            found["accuracy"] = figures["accuracy"] * SHARE.step / figures["tested"]
        return found


def summand(
    plan: Plan, reply: Reply, spec: ModelSpec, seed: int, changes: tuple[str, ...], accuracy: float | None
) -> Summand:
    """Client: return the whole numbers of a reply.

    plan      plan as the client was sent it
    changes   names of payloads that carry changes (Algorithm.changes)
    accuracy  share of the client's test samples that its model has right, or None without test samples
    Raises    PlanError if the plan has no values from which the reply's changes could be counted. TrainingError for
              values that are not finite.
    """
    layout, clipped = ReplyLayout.of(plan, spec), 0
    values: dict[tuple[str, str], Whole] = {}
    kinds = {name: param.kind for name, param in spec.params.items()}
    for payload in plan.due:
        if payload not in reply.payload:
            raise PlanError(f"a reply without {payload}; expected the values that the plan asks for")
        old = {} if payload in changes else _sent(plan, payload, spec)
        _check_finite(reply.payload[payload], payload)
        name = RoundingName(seed, plan.round, payload)
        found = rounded_changes(reply.payload[payload], old, kinds, name, plan.client)
        values |= {(payload, parameter): numbers for parameter, numbers in found.values.items()}
        clipped += found.clipped
    figures = {"clipped": clipped, "loss": _fixed(LOSS, reply.metrics.get("loss", 0.0)), "accuracy": 0, "tested": 0}
    if accuracy is not None:
        figures |= {"accuracy": _fixed(SHARE, accuracy), "tested": 1}
    return Summand(layout, layout.joined(values, figures).astype(np.int32))


def weighted(numbers: np.ndarray, weight: int, bits: Literal[32, 64]) -> np.ndarray:
    """Client: return the vector of a summand modulo 2^bits, uint32 or uint64. Figures are not weighted."""
    vector = numbers.astype(np.int64)
    vector[: -len(FIGURES)] *= weight
    return vector.astype(np.uint32 if bits == 32 else np.uint64)


def stand_in(plan: Plan, layout: ReplyLayout, old: Mapping[str, Params], claim: ReplyClaim) -> Reply:
    """Server: return the reply of a client that has changed nothing, with the numbers that the client has declared.

    old  server's values by payload. Payloads that carry changes are not in it
    """
    payload: dict[str, dict[str, Block]] = {}
    for place in layout.places:
        before = old.get(place.payload, {})
        if place.parameter in before:
            values = np.ascontiguousarray(values_at(before[place.parameter], place.index))
        else:
            values = np.zeros(place.values_shape, np.float32)
        payload.setdefault(place.payload, {})[place.parameter] = Block(place.shape, place.index, values)
    return Reply(
        plan.round,
        plan.client,
        {name: Update(blocks) for name, blocks in payload.items()},
        b"" if plan.selection is None else plan.selection.hash(),
        examples=claim.examples or 1,
        steps=claim.steps or 1,
    )


def weight_of(algorithm: Algorithm, plan: Plan, reply: Reply, accumulator: Accumulator) -> int:
    """Server: return the weight with which the method counts a stand-in's client. `accumulator` is an empty one.

    Raises  ValueError if the method gives the payloads of a reply different weights.
    """
    algorithm.aggregate(accumulator, plan, reply)
    means = [accumulator.of(payload) for payload in reply.payload]
    found = {mean.declared(plan.client) for mean in means if isinstance(mean, ExactMean)}
    if len(found) != 1:
        raise ValueError(f"weights {sorted(map(str, found))} of client {plan.client}; expected one weight")
    return found.pop()


def bits_for(weights: int, values: int, clients: int) -> Literal[32, 64]:
    """Return the bits of the integers modulo which a group is summed. They follow from declared numbers alone.

    weights  sum of the clients' weights
    values   number of values in a vector
    """
    needed = max(bits_of(MOST, max(weights, clients)), (values * clients).bit_length() + 1)
    if needed > 64:
        raise ValueError(f"weights of {weights} in all; expected weights whose sums fit into 64 bits")
    return 32 if needed <= 32 else 64


def _check_finite(update: Update, payload: str) -> None:
    for name, block in update.blocks.items():
        if not np.isfinite(block.values).all():
            raise TrainingError(f"{payload}/{name} has a value that is not finite after the training; expected numbers")


def _sent(plan: Plan, payload: str, spec: ModelSpec) -> Params:
    """Return the values that a client was sent, as whole parameters. Values that it was not sent are 0."""
    found = {}
    for name, block in plan.payload[payload].blocks.items():
        whole = np.zeros(spec.params[name].shape, np.float32)
        put_at(whole, block)
        found[name] = whole
    return found


def _fixed(fixed: FixedPoint, value: float) -> int:
    return round(min(max(value, -fixed.clip), fixed.clip) / fixed.step)
