"""Footprint: the one result type of every account of memory, estimated or measured. A value; it computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgefl.learning.lowering.arena_inventory import ArenaTensor


@dataclass(frozen=True)
class Footprint:
    """Bytes of one account for one way of training one model.

    account  whose arithmetic, or which meter, the number is
    model    name of the model
    batch    examples per step
    keep     share of active neurons, or density of a mask
    method   how the model is trained; see memory.training
    parts    bytes by what they are for; they add up to `total`
    phase    the part of the method's round that takes this much, the most of all its phases
    saved    of `total`: what is kept from the forward pass for the backward pass; None where that is not known
    flops    floating point operations of the phase's largest step as they are executed; None where that is not known
    tensors  the tensors of the arena with their lifetimes, in the account "exact"; they share the part "arena"
    """

    account: str
    model: str
    batch: int
    keep: float
    method: str
    parts: Mapping[str, int]
    phase: str = "step"
    saved: int | None = None
    flops: int | None = None
    tensors: tuple[ArenaTensor, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def to_json(self) -> dict[str, Any]:
        """The fields and the total as JSON values."""
        tensors = [tensor._asdict() for tensor in self.tensors]
        return {**vars(self), "parts": dict(self.parts), "tensors": tensors, "total": self.total}
