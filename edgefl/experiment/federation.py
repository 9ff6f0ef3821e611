"""Who takes part in a simulation: the model, every client's samples, and the few learners that play all clients.

Not a method and not the round loop. A hundred clients' models are never alive at once: a client's model is read from
its file into one of the learners, and written back after training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.data import partition
from edgefl.data.partition import Indices
from edgefl.errors import DataError
from edgefl.graph import Graph
from edgefl.learners import Samples


@dataclass(frozen=True)
class Split:
    """One client's samples: int32 indices into the federation's data, disjoint."""

    train: NDArray[np.int32]
    validation: NDArray[np.int32]
    test: NDArray[np.int32]


@dataclass(frozen=True)
class Federation:
    """The model, the data, which client owns what, and the seed. `common` is a test set that no client owns, if any."""

    graph: Graph
    data: Samples
    clients: tuple[Split, ...]
    seed: int
    common: Samples | None = None

    @property
    def examples(self) -> int:
        """For training, of all clients together."""
        return sum(len(split.train) for split in self.clients)


def split(share: Indices, seed: int, client: int, train_share: float, validation_share: float) -> Split:
    """A client's parts of its own samples; a function of the seed and the client alone.

    Raises  DataError if the client gets no training or no test samples.
    """
    stream = rng.stream(seed, rng.SPLIT, client=client)
    train, validation, test = partition.split(share, stream, train_share, validation_share)
    if not len(train) or not len(test):
        parts = f"{len(train)} training and {len(test)} test samples of {len(share)}"
        raise DataError(f"client {client} gets {parts}; expected at least one of each; try fewer clients")
    return Split(train, validation, test)
