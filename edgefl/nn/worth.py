"""Which layers the native kernels compute faster than torch, by shape alone: the others are left to torch. Measured
with `python -m bench converted --layers`; bench/README.md has the figures.
"""

from __future__ import annotations

FROZEN_LINEAR = 300_000
"""Multiply-adds of a frozen Linear layer's forward pass below which calls cost more than they spare."""


def linear(rows: int, inputs: int, outputs: int) -> bool:
    """A Linear layer with frozen neurons. Whole ones are torch's, whose libraries are as fast or faster."""
    return rows * inputs * outputs >= FROZEN_LINEAR
