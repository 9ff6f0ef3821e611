"""The start of the dropout stream for a training pass. lowering/dropout.py and the kernels decide which values it
drops.
"""

from __future__ import annotations

from edgefl.errors import TrainingError
from edgefl.learning.batches import Keyed
from edgefl.learning.learner import Array
from edgefl.models.graph import Graph


def begin(graph: Graph, state: Array, position: Keyed | None) -> None:
    """Set state [3] to the key and the step of `position`, and to 0 as the first example.

    Raises  TrainingError without a position where the graph drops values. With a constant key every call would drop the
            values that the call before it dropped
    """
    dropping = [node.name for node in graph.nodes if node.op.drops]
    if not dropping:
        return
    if position is None:
        names = ", ".join(dropping)
        raise TrainingError(f"training with dropout ({names}) and no key; expected batches.Listed, or key=")
    state[:] = as_state(position)


def as_state(position: Keyed) -> tuple[int, int, int]:
    """Return the key and the step of `position`, and 0 as the first example."""
    return _signed(position.key), position.step, 0


def _signed(key: int) -> int:
    """Return the int64 with the bits of a key."""
    if not 0 <= key < 1 << 64:
        raise TrainingError(f"key={key} of dropout; expected 0 <= key < 2^64")
    return key - (1 << 64) if key >> 63 else key
