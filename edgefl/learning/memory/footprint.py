"""Footprint: the result type of every memory account, estimated or measured. It is a value and computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgefl.learning.lowering.arena_inventory import ArenaTensor


@dataclass(frozen=True)
class Footprint:
    """The bytes of one account for one way of training one model.

    account  name of the account, or of the meter, that gave the number
    model    name of the model
    batch    examples in a step
    keep     share of active neurons, or density of a mask
    method   how the model is trained (memory/training_setup.py)
    parts    bytes by purpose, which add up to `total`
    phase    phase of the method's round that takes the most memory, which is the memory given here
    saved    part of `total` that is kept from the forward pass for the backward pass. None if it is not known
    flops    floating point operations of the phase's largest step as they are executed. None if they are not known
    tensors  tensors of the arena with their lifetimes, in the account "exact". They share the part "arena"
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
        """Return the fields and the total as JSON values."""
        tensors = [tensor._asdict() for tensor in self.tensors]
        return {**vars(self), "parts": dict(self.parts), "tensors": tensors, "total": self.total}
