"""The bound on how far a reply may move a model: a limit on the change of every parameter, from the changes of the
round's replies.

Other modules compute the mean of the replies (methods/aggregation.py) and check whether a message is well formed
(exchange.py). A length here is the root mean square of a change over the coordinates that the reply carries. So clients
that train different shares of a parameter can be compared. A median of an even number of values is the lower of the two
middle values.

    the bound of a parameter is the largest of
        FACTOR x the median length of the round's changes of this parameter
        FACTOR x the median length of the round's changes of all learned parameters together
        FLOOR x the root mean square of the parameter before the round, or of all learned ones if that is larger
                (FLOOR_OF_STATISTICS for running statistics)

The bound is never more than LARGEST. For payloads that carry changes or gradients, the first two terms are FOR_CHANGES
times as large, and there is no third term.

A round's only reply is compared with itself, so only LARGEST limits it. The numbers are from honest runs, whose replies
differ far more than one would think. The section "Poisoned replies" of bench/README.md lists the largest differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgefl.methods.plan import Reply
from edgefl.methods.vector_sums import sum_of_squares
from edgefl.methods.weighted_mean import values_at
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Array, Block, Update

FACTOR = 50.0
FLOOR = 1.0
FLOOR_OF_STATISTICS = 20.0
FOR_CHANGES = 4.0
LARGEST = 1e12  # sums of products of a thousand such values are still finite in float32

Lengths = Mapping[str, Mapping[str, float]]  # length by payload and parameter
Old = Mapping[str, Params]  # values before the change by payload, without payloads that carry changes
ALL = ""  # name for all learned parameters of a payload together

BOUNDS = "off, clip, clip:FACTOR, refuse or refuse:FACTOR"


@dataclass(frozen=True)
class UpdateNormBound:
    """The treatment of a reply that goes beyond the bound.

    kind    'off' accepts the reply, 'clip' shortens its changes, and 'refuse' leaves it out
    factor  FACTOR of the bound, at least 1
    """

    kind: Literal["off", "clip", "refuse"] = "refuse"
    factor: float = FACTOR

    @staticmethod
    def parse(text: str) -> UpdateNormBound:
        """Return the bound that a text names. Raises ValueError for any other text."""
        kind, colon, number = text.partition(":")
        try:
            factor = float(number) if colon else FACTOR
        except ValueError:
            factor = math.nan
        if kind not in ("off", "clip", "refuse") or (kind == "off" and colon) or not 1 <= factor < math.inf:
            raise ValueError(f"bound={text}; expected {BOUNDS} with a finite factor >= 1")
        return UpdateNormBound(kind, factor)  # type: ignore[arg-type]


def lengths(reply: Reply, old: Old, spec: ModelSpec) -> Lengths:
    """Return the distance by which a reply moves every parameter of its payloads, and the learned
    parameters together.
    """
    return {name: _lengths(update, old.get(name, {}), spec) for name, update in reply.payload.items()}


def _lengths(update: Update, old: Params, spec: ModelSpec) -> dict[str, float]:
    squares = {name: square_sum(block, old.get(name)) for name, block in update.blocks.items()}
    return roots(squares, {name: block.values.size for name, block in update.blocks.items()}, spec)


def square_sum(block: Block, old: Array | None) -> float:
    """Return the sum of the squares of a block's changes."""
    if block.change is not None and block.change.since is old:
        return block.change.sum
    return sum_of_squares(block.values, None if old is None else values_at(old, block.index))


def roots(squares: dict[str, float], counts: dict[str, int], spec: ModelSpec) -> dict[str, float]:
    """Return root mean squares of parameters from sums of squares, and of the learned ones together.

    A parameter without values is left out.
    """
    learned = [name for name in counts if spec.params[name].kind == "learn"]
    squares[ALL], counts[ALL] = sum([squares[name] for name in learned]), sum([counts[name] for name in learned])
    return {name: math.sqrt(squares[name] / count) for name, count in counts.items() if count}


def change(block: Block, old: Array | None) -> Array:
    """Return the values of a block minus the values before the round, in float64."""
    values = block.values.astype(np.float64)
    if old is not None:
        values -= values_at(old, block.index)
    return values


def medians(found: Sequence[Lengths]) -> Lengths:
    """Return the medians of the replies' distances, by payload and parameter, over the replies that carry the
    parameter.
    """
    gathered: dict[str, dict[str, list[float]]] = {}
    for each in found:
        for payload, parameters in each.items():
            for name, length in parameters.items():
                gathered.setdefault(payload, {}).setdefault(name, []).append(length)
    return {
        payload: {name: sorted(values)[(len(values) - 1) // 2] for name, values in parameters.items()}
        for payload, parameters in gathered.items()
    }


def bounds(found: Sequence[Lengths], factor: float, old: Old, spec: ModelSpec) -> Lengths:
    """Return the bounds by the rule in this module's docstring, for the lengths of a round's replies."""
    return {
        payload: _bounds(middle, factor, _floors(old[payload], spec))
        if payload in old
        else _bounds(middle, factor * FOR_CHANGES, {})
        for payload, middle in medians(found).items()
    }


def _bounds(middle: Mapping[str, float], factor: float, floors: Mapping[str, float]) -> dict[str, float]:
    typical, floor = middle.get(ALL, 0.0), floors.get(ALL, 0.0)
    return {
        name: min(max(factor * max(each, typical), floors.get(name, 0.0), floor), LARGEST)
        for name, each in middle.items()
        if name != ALL
    }


def _floors(old: Params, spec: ModelSpec) -> dict[str, float]:
    """Return the change that every parameter, and the learned parameters together, may make in any case."""
    old = {name: value for name, value in old.items() if spec.params[name].kind != "frozen"}
    squares = {name: sum_of_squares(value) for name, value in old.items()}
    sizes = roots(squares, {name: value.size for name, value in old.items()}, spec)
    stats = {name for name in old if spec.params[name].kind == "stat"}
    return {name: size * (FLOOR_OF_STATISTICS if name in stats else FLOOR) for name, size in sizes.items()}


def beyond(found: Lengths, most: Lengths) -> str | None:
    """Describe the parameter in which a reply goes farthest beyond the bounds, or return None if it stays
    within them.
    """
    worst = [
        (length / most[payload][name] if most[payload][name] else math.inf, payload, name)
        for payload, parameters in found.items()
        for name, length in parameters.items()
        if name != ALL and length > most[payload][name]
    ]
    if not worst:
        return None
    _, payload, name = max(worst)
    limit = most[payload][name]
    return f"changes {payload}/{name} by {found[payload][name]:.3g} (root mean square); expected at most {limit:.3g}"


def clipped(reply: Reply, found: Lengths, most: Lengths, old: Old) -> Reply:
    """Return the reply with every change that is too long shortened to its bound.

    The result is the reply itself if no change is too long.
    """
    payload = {
        name: _clipped(update, found[name], most[name], old.get(name, {})) for name, update in reply.payload.items()
    }
    changed = any(payload[name] is not update for name, update in reply.payload.items())
    return replace(reply, payload=payload) if changed else reply


def _clipped(update: Update, found: Mapping[str, float], most: Mapping[str, float], old: Params) -> Update:
    blocks = {
        name: _shortened(block, most[name] / found[name], old.get(name))
        for name, block in update.blocks.items()
        if name in found and found[name] > most[name]
    }
    return Update({**update.blocks, **blocks}) if blocks else update


def _shortened(block: Block, share: float, old: Array | None) -> Block:
    values = change(block, old) * share
    if old is not None:
        values += values_at(old, block.index)
    return replace(block, values=np.ascontiguousarray(values, block.values.dtype), change=None)
