"""The shares of active neurons and the batch sizes that fit a number of bytes, for the owner of a device.

The account is `exact`, of steps that compute nothing again. So a learner with this limit runs the chosen batch as it
is, and the next larger batch only if parts of its forward pass are computed again (plans.py). The interpreter, its
libraries and the data set need memory in addition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from edgefl.learning.memory.exact import exact
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.training_setup import TrainingConfiguration

LARGEST_BATCH = 4096  # largest batch that is tried, in examples


class BatchSizeFit(NamedTuple):
    """The largest batch that fits at a share of active neurons.

    keep       share of active neurons
    batch      examples in the batch. 0 if not even one example fits
    footprint  footprint of that batch, or of one example if it does not fit
    """

    keep: float
    batch: int
    footprint: Footprint


def fit(training: TrainingConfiguration, limit_bytes: int, keeps: Sequence[float]) -> list[BatchSizeFit]:
    """Return the largest batch at each share, from the largest share to the smallest.

    training     configuration whose batch and share are replaced
    limit_bytes  number of bytes into which a batch has to fit
    keeps        shares of active neurons
    Raises       ValueError for a share out of range, and GraphError like TrainingConfiguration.passes
    """
    return [_largest(replace(training, keep=keep), limit_bytes) for keep in sorted(set(keeps), reverse=True)]


def best(choices: Sequence[BatchSizeFit], batch: int) -> BatchSizeFit | None:
    """Return the largest share at which `batch` fits, or else the largest share at which any batch fits, or None."""
    return next((c for c in choices if c.batch >= batch), next((c for c in choices if c.batch), None))


def _largest(training: TrainingConfiguration, limit_bytes: int) -> BatchSizeFit:
    """Find the largest batch that fits, by bisection.

    The chosen batch was found to fit, and the next larger batch, if it was tried, was found not to fit.
    """

    def is_too_large(batch: int) -> bool:
        return exact(replace(training, batch=batch)).total > limit_bytes

    batch = bisect_left(range(1, LARGEST_BATCH + 1), True, key=is_too_large)
    return BatchSizeFit(training.keep, batch, exact(replace(training, batch=max(batch, 1))))
