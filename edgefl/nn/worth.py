"""Which Linear layers the native kernels compute faster than torch, by shape alone: the others are left to torch.
Measured with `python -m bench converted --layers`; bench/README.md has the figures. Convolutions always gain.
"""

from __future__ import annotations

FROZEN = 300_000
"""Multiply-adds of a frozen layer's forward pass below which calls cost more than they spare."""

WHOLE = 1_500_000
"""The same of a whole layer, where it gains at all."""

STRIDE = 1024
"""Floats: rows that lie a multiple of 4 KB apart share their places in the cache, which MKL's products do not avoid."""


def linear(rows: int, inputs: int, outputs: int, is_frozen: bool) -> bool:
    """A Linear layer, whole or with frozen neurons."""
    count = rows * inputs * outputs
    return count >= FROZEN if is_frozen else inputs % STRIDE == 0 and count >= WHOLE
