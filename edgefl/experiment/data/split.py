"""A client's own split of its samples into training, validation and test samples.

partition.py decides which client owns which sample. A device whose file has no split makes the split that a simulation
would make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.errors import DataError

Indices = NDArray[np.int32]
Times = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """One client's samples: disjoint int32 indices into the federation's data."""

    train: Indices
    validation: Indices
    test: Indices


def split(
    client_samples: Indices, seed: int, client: int, train_share: float, validation_share: float, who: str = ""
) -> Split:
    """Split a client's own samples. The split depends on the seed and the client alone.

    who     name of the client in the error
    Raises  DataError if the client gets no training or no test samples.
    """
    stream = rng.stream(seed, rng.SPLIT, client=client)
    return _some(Split(*parts(client_samples, stream, train_share, validation_share)), who or f"client {client}")


def split_by_time(
    client_samples: Indices, times: Times, train_share: float, validation_share: float, who: str
) -> Split:
    """Split a client's own samples by time: the oldest for training, the next for validation, the newest for testing.

    times   float64 [N] of all samples. Samples of equal times keep their order
    Raises  DataError if the client gets no training or no test samples.
    """
    ordered = client_samples[np.argsort(times[client_samples], kind="stable")]
    kept, carved = counts_of(len(client_samples), train_share, validation_share)
    pieces = np.split(ordered, [kept - carved, kept])
    return _some(Split(*(np.sort(piece) for piece in pieces)), who)


def _some(found: Split, who: str) -> Split:
    """Return the split. Raises DataError unless it has training samples and test samples."""
    if not len(found.train) or not len(found.test):
        total = sum(map(len, (found.train, found.validation, found.test)))
        counts = f"{len(found.train)} training and {len(found.test)} test samples of {total}"
        raise DataError(
            f"{who} gets {counts}; expected at least one of each kind; try fewer clients, or --fewest N to leave out "
            "groups that have fewer"
        )
    return found


def parts(
    indices: Indices, stream: rng.Stream, train: float = 0.7, carve: float = 0.1
) -> tuple[Indices, Indices, Indices]:
    """Return the (training, validation, test) parts of one client's examples, each sorted. Together they are `indices`.

    floor(train * n) examples are set apart for training, and the others are the test part. The fraction `carve` of the
    examples for training, rounded down, becomes the validation part. The test part does not depend on `carve`. Counts
    are floored with a slack of 1e-9, so that 0.7 * 90 is 63.
    Raises  ValueError unless 0 <= train <= 1 and 0 <= carve < 1.
    Source  FedSPU, 70/30. The carving is ours, so that early stopping never sees test data.
    """
    if not 0 <= train <= 1 or not 0 <= carve < 1:
        raise ValueError(f"train={train}, carve={carve}; expected 0 <= train <= 1 and 0 <= carve < 1")
    shuffled = np.asarray(indices, np.int32)[stream.permutation(len(indices))]
    kept, carved = counts_of(len(indices), train, carve)
    return np.sort(shuffled[: kept - carved]), np.sort(shuffled[kept - carved : kept]), np.sort(shuffled[kept:])


def training_samples(declared: Sequence[int], train: float, carve: float) -> int:
    """Return the number of training samples, at least 1, of a client that declares these numbers of samples.

    declared  one number of samples, which are then split as `parts` does, or the numbers of training, validation and
              test samples
    """
    if len(declared) > 1:
        return max(declared[0], 1)
    kept, carved = counts_of(declared[0], train, carve)
    return max(kept - carved, 1)


def counts_of(examples: int, train: float, carve: float) -> tuple[int, int]:
    """Return the number of samples that are set apart for training, and how many of them are carved for validation."""
    kept = int(train * examples + 1e-9)
    return kept, int(carve * kept + 1e-9)
