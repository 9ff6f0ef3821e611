"""Sets the stream of dropout for a pass that trains. Which values it drops, lowering/dropout.py and the kernels say."""

from __future__ import annotations

from edgefl.errors import TrainingError
from edgefl.learning.batches import Keyed
from edgefl.learning.learner import Array
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import AnyDropout


def begin(graph: Graph, state: Array, position: Keyed | None) -> None:
    """state [3] = key, step, first example: those of `position`, and 0.

    Raises  TrainingError without a place where the graph drops values: with a key that is always the same every call
            would drop those of the one before.
    """
    dropping = [node.name for node in graph.nodes if isinstance(node.op, AnyDropout) and node.op.p > 0]
    if not dropping:
        return
    if position is None:
        names = ", ".join(dropping)
        raise TrainingError(f"training with dropout ({names}) and no key; expected batches.Listed, or key=")
    state[:] = as_state(position)


def as_state(position: Keyed) -> tuple[int, int, int]:
    """key, step, first example: those of `position`, and 0."""
    return _signed(position.key), position.step, 0


def _signed(key: int) -> int:
    """The int64 with the bits of a key."""
    if not 0 <= key < 1 << 64:
        raise TrainingError(f"key={key} of dropout; expected 0 <= key < 2^64")
    return key - (1 << 64) if key >> 63 else key
