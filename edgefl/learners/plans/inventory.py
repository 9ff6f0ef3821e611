"""What a plan keeps in its arena, tensor by tensor: names, bytes, places and lifetimes. Reads plans; lowers nothing.

This is how accounts of memory see a plan: whatever lowering does, its buffers and calls say what is held and when.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.kernels.table import TABLE
from edgefl.learners.plans.plan import Plan, Tensor

LOSS_CALL = "softmax_xent"  # the backward pass begins after it


class ArenaTensor(NamedTuple):
    """A buffer of a plan, named after the call that is the first to use it and its argument there.

    bytes        without padding to the arena's alignment
    offset       in the arena
    first, last  calls between which its values live, both included
    """

    node: str
    op: str
    argument: str
    bytes: int
    offset: int
    first: int
    last: int


def arena_tensors(plan: Plan, float_bytes: int = 4) -> tuple[ArenaTensor, ...]:
    """The buffers of a plan in the order they come to life; empty ones are left out."""
    names = _names(plan)
    found = [
        ArenaTensor(*names[i], buffer.bytes(float_bytes), offset, buffer.first, buffer.last)
        for i, (buffer, offset) in enumerate(zip(plan.buffers, plan.offsets, strict=True))
        if buffer.size
    ]
    return tuple(sorted(found, key=lambda tensor: tensor.first))


def saved_bytes(plan: Plan, float_bytes: int = 4) -> int:
    """Bytes that a training plan keeps for its backward pass: what is written before the loss and read after it."""
    loss = next(position for position, call in enumerate(plan.calls) if call.op == LOSS_CALL)
    return sum(tensor.bytes for tensor in arena_tensors(plan, float_bytes) if tensor.first < loss < tensor.last)


def _names(plan: Plan) -> dict[int, tuple[str, str, str]]:
    """Buffer -> node, operation and argument of the first call that names it."""
    names: dict[int, tuple[str, str, str]] = {}
    for call in plan.calls:
        for arg, argument in zip(call.args, TABLE[call.op].names, strict=True):
            if isinstance(arg, Tensor):
                names.setdefault(arg.buffer, (call.node, call.op, argument))
    return names
