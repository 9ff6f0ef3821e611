"""Ways in which a training step fits a number of bytes, from one that changes no bit to fewer neurons.

For each share of active neurons three kinds of ways are tried in turn. A step computes parts of its forward pass again,
which changes no bit. The batch passes in parts, whose gradients are summed. Values that wait for the backward pass are
held in float16. Every way has its exact account (exact.py), and a learner with the limit holds as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from edgefl.learning.lowering.micro_batches import refusal
from edgefl.learning.memory.exact import exact
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.plans import frontier
from edgefl.learning.memory.training_setup import TrainingConfiguration
from edgefl.models.graph.operations import AnyDropout


class TrainingWay(NamedTuple):
    """A way of training with less memory.

    keep         share of active neurons
    micro_batch  most examples that pass at once. 0: the whole batch
    saved        number format of values that wait for the backward pass
    segments     number of parts of the forward pass that are computed again
    footprint    its account. Of a way that does not fit, the least that the way takes
    fits         whether the step fits
    """

    keep: float
    micro_batch: int
    saved: str
    segments: int
    footprint: Footprint
    fits: bool


def ways(training: TrainingConfiguration, limit_bytes: int, keeps: Sequence[float]) -> list[TrainingWay]:
    """Return the ways that were tried. The last one fits, or nothing does.

    training     configuration whose share, parts and number format are replaced
    limit_bytes  number of bytes into which a step has to fit
    keeps        shares of active neurons, of which larger ones are tried first
    Raises       ValueError as `frontier` does, GraphError if a sub-model is impossible
    """
    found = []
    for way in _tried(training, limit_bytes, sorted(set(keeps), reverse=True)):
        found.append(way)
        if way.fits:
            break
    return found


def _tried(training: TrainingConfiguration, limit: int, keeps: Sequence[float]) -> Iterator[TrainingWay]:
    for keep in keeps:
        sizes = _halves(training) if _divides(training) else [0]
        for size in sizes:
            terms = replace(training.terms, micro_batch=size)
            yield _planned(replace(training, keep=keep, terms=terms), limit)
        terms = replace(training.terms, micro_batch=sizes[-1], saved="fp16")
        halved = exact(replace(training, keep=keep, terms=terms))
        yield TrainingWay(keep, sizes[-1], "fp16", 0, halved, halved.total <= limit)


def _planned(training: TrainingConfiguration, limit: int) -> TrainingWay:
    """Return the first of the frontier's steps that fits, or the smallest one."""
    found = frontier(training)
    best = next((each for each in found if each.footprint.total <= limit), found[-1])
    is_within = best.footprint.total <= limit
    terms = training.terms
    return TrainingWay(training.keep, terms.micro_batch, "fp32", best.segments, best.footprint, is_within)


def _divides(training: TrainingConfiguration) -> bool:
    """Return whether a batch may pass in parts."""
    drops = any(isinstance(node.op, AnyDropout) and node.op.drops for node in training.graph.nodes)
    return not refusal(training.loss, drops)


def _halves(training: TrainingConfiguration) -> list[int]:
    """Return the whole batch as 0, then halves of it down to one example."""
    found, size = [0], training.batch
    while size > 1:
        size = -(-size // 2)
        found.append(size)
    return found
