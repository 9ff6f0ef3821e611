"""The answer to a device owner: which shares of active neurons and which batches fit a number of bytes.

By the account `exact`, so a learner with that limit runs what is chosen here and refuses the next larger batch. The
interpreter, its libraries and the data set come on top.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from edgefl.learning.memory.exact import exact
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.training_setup import TrainingConfiguration

LARGEST_BATCH = 4096  # no larger one is tried


class BatchSizeFit(NamedTuple):
    """The largest batch that fits at a share of active neurons.

    batch      0 if not even one example fits
    footprint  of that batch, or of one example if it does not fit
    """

    keep: float
    batch: int
    footprint: Footprint


def fit(training: TrainingConfiguration, limit_bytes: int, keeps: Sequence[float]) -> list[BatchSizeFit]:
    """The largest batch at each share, the shares from large to small.

    training  its batch and share are replaced
    Raises    ValueError for a share out of range; GraphError as TrainingConfiguration.passes.
    """
    return [_largest(replace(training, keep=keep), limit_bytes) for keep in sorted(set(keeps), reverse=True)]


def best(choices: Sequence[BatchSizeFit], batch: int) -> BatchSizeFit | None:
    """The largest share at which `batch` fits; if it fits at none, the largest share at which any batch does."""
    return next((c for c in choices if c.batch >= batch), next((c for c in choices if c.batch), None))


def _largest(training: TrainingConfiguration, limit_bytes: int) -> BatchSizeFit:
    """By bisection: the batch chosen was found to fit, and the next larger one, if any is tried, not to."""

    def is_too_large(batch: int) -> bool:
        return exact(replace(training, batch=batch)).total > limit_bytes

    batch = bisect_left(range(1, LARGEST_BATCH + 1), True, key=is_too_large)
    return BatchSizeFit(training.keep, batch, exact(replace(training, batch=max(batch, 1))))
