"""Who takes part in a simulation: the model, every client's samples, and the few learners that play all clients.

Not a method and not the round loop. A hundred clients' models are never alive at once: a client's model is read from
its file into one of the learners, and written back after training.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.data.split import Split
from edgefl.graph import Graph
from edgefl.learners import Samples


@dataclass(frozen=True)
class Federation:
    """The model, the data, which client owns what, and the seed. `common` is a test set that no client owns, if any."""

    graph: Graph
    data: Samples
    clients: tuple[Split, ...]
    seed: int
    common: Samples | None = None

    @property
    def largest(self) -> int:
        """For training, of the client that has most."""
        return max(len(split.train) for split in self.clients)

    @property
    def examples(self) -> int:
        """For training, of all clients together."""
        return sum(len(split.train) for split in self.clients)
