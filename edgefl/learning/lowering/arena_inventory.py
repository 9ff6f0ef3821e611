"""The inventory of a schedule's arena, tensor by tensor: names, bytes, positions and lifetimes. Nothing is lowered
here.

Memory accounts see a schedule through this inventory. Its buffers and calls say what is held and when.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.kernels.table import FAMILIES, TABLE
from edgefl.learning.lowering.schedule import Schedule, Tensor

LOSSES = frozenset(row.name for row in FAMILIES["loss"])  # the backward pass begins after one of them


class ArenaTensor(NamedTuple):
    """A buffer of a schedule, named after the call that is the first to use it and the argument of this call.

    bytes        size without padding to the arena's alignment
    offset       position in the arena, in bytes
    first, last  calls between which its values live, both included
    """

    node: str
    op: str
    argument: str
    bytes: int
    offset: int
    first: int
    last: int


def arena_tensors(schedule: Schedule, float_bytes: int = 4) -> tuple[ArenaTensor, ...]:
    """Return the buffers of a schedule in the order in which they come to life. Empty buffers are left out."""
    names = _names(schedule)
    found = [
        ArenaTensor(*names[i], buffer.bytes(float_bytes), offset, buffer.first, buffer.last)
        for i, (buffer, offset) in enumerate(zip(schedule.buffers, schedule.offsets, strict=True))
        if buffer.size
    ]
    return tuple(sorted(found, key=lambda tensor: tensor.first))


def saved_bytes(schedule: Schedule, float_bytes: int = 4) -> int:
    """Return the bytes that a training schedule writes before the loss and reads after it, in its backward pass."""
    loss = next(position for position, call in enumerate(schedule.calls) if call.op in LOSSES)
    return sum(tensor.bytes for tensor in arena_tensors(schedule, float_bytes) if tensor.first < loss < tensor.last)


def _names(schedule: Schedule) -> dict[int, tuple[str, str, str]]:
    """Return for each buffer the node, operation and argument of the first call that names it."""
    names: dict[int, tuple[str, str, str]] = {}
    for call in schedule.calls:
        for arg, argument in zip(call.args, TABLE[call.op].names, strict=True):
            if isinstance(arg, Tensor):
                names.setdefault(arg.buffer, (call.node, call.op, argument))
    return names
