"""Which whole Linear layers the native kernels compute faster than torch, by shape alone: the others are left to torch.
Measured with `python -m bench converted --layers`; bench/README.md has the figures. Convolutions gain in all shapes
measured, and layers with frozen neurons have less to do.
"""

from __future__ import annotations

FEWEST = 1_500_000
"""Multiply-adds of a forward pass below which a call costs more than it gains."""

STRIDE = 1024
"""Floats: rows that lie a multiple of 4 KB apart share their places in the cache, which MKL's products do not avoid."""


def linear(rows: int, inputs: int, outputs: int) -> bool:
    """A Linear layer on a batch of so many rows."""
    return inputs % STRIDE == 0 and rows * inputs * outputs >= FEWEST
