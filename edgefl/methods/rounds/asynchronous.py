"""Asynchronous rounds: a round is closed after a number of replies, while the other clients go on training.

The replies that wait for the end of a round are the buffer. A client keeps its task over the ends of rounds until its
reply is there or the task is too old. So a reply may come from an older model than the present one. Its staleness is
the number of rounds that were closed since its task was sent. The reply counts by its change from the model that was
sent, by a factor that falls with staleness. Client k was sent the values v_k and has trained x_k. Its weight is n_k,
and the factor of its staleness is s_k. With present value w a coordinate becomes one of

    w + sum s_k n_k (x_k - v_k) / sum n_k        (step)
    w + sum s_k n_k (x_k - v_k) / sum s_k n_k    (weight)

Both sums are over the clients of the round that trained the coordinate. With `step` a stale change is shorter, as in
FedBuff. With `weight` a stale change counts less beside fresher changes, and nothing is shorter if all changes are
equally stale. Where v_k is w and s_k is 1, the result has the bits of a round that waits for everybody. Running
statistics are levels of what a client has seen. Changes of a level do not add up, and could make a variance negative.
So v_k is w for running statistics.

Source  Nguyen et al. (AISTATS 2022), FedBuff. Coordinates that some clients trained, the weight n_k, `weight` and the
        limit of staleness are ours
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.neuron_draws import NeuronDraws
from edgefl.methods.plan import Reply
from edgefl.methods.weighted_mean import values_at
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update

STALENESS = "none, step:A or weight:A"
EXPONENT = 0.5


@dataclass(frozen=True)
class StalenessFactor:
    """The factor of a reply by its staleness, which is (1 + staleness)^-exponent.

    kind      `step` for the reply's change, `weight` for its weight
    exponent  at least 0. With 0 staleness has no effect
    """

    kind: Literal["step", "weight"] = "step"
    exponent: float = EXPONENT

    @staticmethod
    def parse(text: str) -> StalenessFactor:
        """Return the factor that a text names. Raises ValueError for any other text."""
        kind, colon, number = text.partition(":")
        try:
            exponent = float(number) if colon else EXPONENT
        except ValueError:
            exponent = math.nan
        if text == "none":
            return StalenessFactor(exponent=0.0)
        if kind not in ("step", "weight") or not 0 <= exponent < math.inf:
            raise ValueError(f"staleness={text}; expected {STALENESS}, with A >= 0")
        return StalenessFactor(kind, exponent)  # type: ignore[arg-type]

    def factor(self, staleness: int) -> float:
        """Return the factor of a reply with this staleness, which is 1 for a staleness of 0."""
        return float((1 + staleness) ** -self.exponent)

    def factors(self, staleness: Mapping[int, int]) -> tuple[dict[int, float], dict[int, float]]:
        """Return the factors of changes and the factors of weights, by client, without clients of staleness 0."""
        found = {client: self.factor(rounds) for client, rounds in staleness.items() if rounds}
        return (found, {}) if self.kind == "step" else ({}, found)


@dataclass(frozen=True)
class AsynchronousRounds:
    """The settings of asynchronous rounds, beside the factor of staleness.

    buffer         number of accepted replies that close a round
    tasks          largest number of clients that have a task, or whose reply waits in the buffer
    max_staleness  largest staleness of a reply. A task that would exceed it is given up, and its reply is late
    """

    buffer: int
    tasks: int
    max_staleness: int = 10

    def is_too_old(self, planned: int, round: int) -> bool:
        """Return whether a task of the round `planned` can no longer be part of the round `round`."""
        return round - planned > self.max_staleness


def problem(algorithm: Algorithm) -> str:
    """Return why a method cannot have asynchronous rounds, in a sentence, or "" if it can."""
    name = algorithm.name
    if not vars(type(algorithm)).get("asynchronous", False):
        able = "fedspu, fedavg, or another method of docs/asynchronous.md"
        return f"method {name} has no asynchronous rounds; expected {able}"
    if isinstance(algorithm, NeuronDraws) and algorithm.draws == "shared":
        return f"method {name} with draws=shared, by which the clients of a round share neurons; expected draws=own"
    return ""


def with_places(algorithm: Algorithm, places: int) -> Algorithm:
    """Return the method with as many clients in a round as there are places, at least 1."""
    return replace(algorithm, per_round=places)  # type: ignore[type-var]


def at_present(
    reply: Reply, sent: Mapping[str, Params], present: Mapping[str, Params], spec: ModelSpec, share: float = 1.0
) -> Reply:
    """Return the reply as if its client had begun with the present values: w + share (x - v) in float64.

    sent, present  values by payload. A payload that is in neither carries changes, as if v and w were 0
    spec           specification of the model. Running statistics count as w + share (x - w)
    """
    levels = {name for name, param in spec.params.items() if param.kind == "stat"}
    payload = {}
    for name, update in reply.payload.items():
        now = present.get(name, {})
        before = {each: now[each] if each in levels else sent[name][each] for each in now}
        payload[name] = _moved(update, before, now, share)
    return replace(reply, payload=payload)


def _moved(update: Update, sent: Params, present: Params, share: float) -> Update:
    blocks = {}
    for name, block in update.blocks.items():
        values = block.values.astype(np.float64)
        if name in present:
            values = values_at(present[name], block.index) + share * (values - values_at(sent[name], block.index))
        else:
            values = share * values
        blocks[name] = replace(block, values=np.ascontiguousarray(values), change=None)
    return Update(blocks)
