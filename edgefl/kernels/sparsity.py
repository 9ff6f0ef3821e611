"""Which masked layers run sparse: the one rule, on shape, batch, density and instruction set. Not the kernels.

A layer that the rule turns down runs dense with a weight that is 0 outside its mask, so that no layer is ever slower
for its mask. The densities were measured by `python -m bench sparse`, native against the dense kernels of that day, and
are set below the crossing by a tenth, as machines differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = Sequence[int]

LANES = {"scalar": 4, "avx2": 8, "avx512": 16}
"""Examples that one word of an instruction set holds."""

ONE_PANEL = 32
"""Largest batch whose input gradient reads the forward structure: beyond it, results are summed in registers."""


def runs_sparse(op: str, shape: Shape, batch: int, density: float, isa: str) -> bool:
    """Whether forward and backward of a masked layer are to skip its zeros.

    op     "linear", shape [out_features, in_features]; or "convolution", shape [out_channels, in_channels, kernel_h,
           kernel_w, height and width of the result]
    isa    as edgefl.kernels.native.isa() says; "" for a Python backend, which computes dense
    Raises ValueError for another op.
    """
    if op not in RULES:
        raise ValueError(f"op={op!r}; expected one of {', '.join(RULES)}")
    return isa in LANES and density <= RULES[op](shape, batch, isa)


def keeps_transposed(op: str, batch: int) -> bool:
    """Whether the input gradient of such a layer is computed from a transposed structure, with values of its own."""
    return op != "linear" or batch > ONE_PANEL


def _linear(shape: Shape, batch: int, isa: str) -> float:
    """Largest density. Lanes beyond the batch are wasted; dense products of few examples read the weight just once."""
    words = -(-batch // LANES[isa])
    filled = batch / (words * LANES[isa]) if batch else 0.0
    largest = LINEAR[isa][0 if batch <= ONE_PANEL else 1]
    return largest * filled if min(shape) >= SMALLEST else 0.0


SMALLEST = 64
"""Features below which a layer's own time is that of its calls."""

LINEAR: dict[str, tuple[float, float]] = {"scalar": (0.3, 0.3), "avx2": (0.35, 0.35), "avx512": (0.4, 0.45)}
"""Largest densities of a Linear layer, for batches up to ONE_PANEL and beyond."""


def _convolution(shape: Shape, batch: int, isa: str) -> float:
    """Largest density. Rows of large maps are fast with dense kernels (Winograd's), of 2 x 2 maps half is halo."""
    outs, ins, *kernel, height, width = shape
    if outs < SMALLEST // 4 or ins * math.prod(kernel) < SMALLEST:
        return 0.0
    words = -(-batch // LANES[isa])
    filled = batch / (words * LANES[isa]) if batch else 0.0
    cells = height * width
    return filled * next(largest for least, largest in CONVOLUTION if cells >= least)


CONVOLUTION: tuple[tuple[int, float], ...] = ((256, 0.2), (5, 0.55), (0, 0.2))
"""Of maps of at least so many cells, the largest density of a convolution."""

RULES: dict[str, Callable[[Shape, int, str], float]] = {"linear": _linear, "convolution": _convolution}
