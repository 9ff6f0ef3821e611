"""Which masked layers run sparse: the one rule, on shape, batch, density and instruction set. Not the kernels.

A layer that the rule turns down runs dense with a weight that is 0 outside its mask, so that no layer is slower for its
mask. The densities are those up to which `python -m bench sparse` found forward and backward together to be faster than
both the dense kernels of that day and PyTorch's, less some room, as machines differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = Sequence[int]

LANES = {"scalar": 4, "avx2": 8, "avx512": 16}
"""Examples that one word of an instruction set holds."""

ONE_STRUCTURE = 32
"""Largest batch whose Linear layers compute the gradient of their input from the forward structure."""

SCATTER = 40
"""What a weight's way into a whole array and its gradient's way back cost, in its multiply-adds of a dense layer: 3.5
nanoseconds in torch, where forward and backward take .09 for each example and position.
"""

FEWEST = 64
"""Inputs or outputs of a Linear layer, below which its time is that of its calls."""


def runs_sparse(op: str, shape: Shape, batch: int, density: float, isa: str, *, scatters: bool = False) -> bool:
    """Whether forward and backward of a masked layer are to skip its zeros.

    op        "linear", shape [out_features, in_features], or "conv2d", shape [out_channels, in_channels, kernel_h,
              kernel_w, height, width] with the size of its input
    isa       as edgefl.kernels.native.isa() says; "" for a backend in Python, which computes dense
    scatters  whether a dense layer would first have to write its values into a whole weight, and its gradient back
    Raises ValueError for another op.
    """
    if op not in RULES:
        raise ValueError(f"op={op!r}; expected one of {', '.join(RULES)}")
    if isa not in LANES or batch <= 0:
        return False
    more = SCATTER / (batch * math.prod(shape[4:])) if scatters else 0.0
    return density <= RULES[op](shape, batch, isa) * _filled(batch, isa) * (1 + more)


def keeps_transposed(op: str, batch: int) -> bool:
    """Whether the input gradient of such a layer is computed from a transposed structure, with values of its own."""
    return op != "linear" or batch > ONE_STRUCTURE


def _filled(batch: int, isa: str) -> float:
    """The share of lanes that hold an example."""
    lanes = LANES[isa]
    return batch / (-(-batch // lanes) * lanes)


def _linear(shape: Shape, batch: int, isa: str) -> float:
    return LINEAR[isa][batch > ONE_STRUCTURE] if min(shape) >= FEWEST else 0.0


def _conv2d(shape: Shape, batch: int, isa: str) -> float:
    """Small maps gain, as dense kernels have few positions to share a weight's load among, but for 2 x 2, which have
    dense kernels of their own; layers of few weights gain at any size.
    """
    _, ins, _, _, height, width = shape
    if ins < FEWEST_CHANNELS:
        return 0.0
    by_size = next(density for size, density in CONV2D[isa] if max(height, width) <= size)
    return FEW_DENSITY.get(isa, by_size) if math.prod(shape[:4]) <= FEW_WEIGHTS else by_size


LINEAR: dict[str, tuple[float, float]] = {"scalar": (0.2, 0.2), "avx2": (0.35, 0.48), "avx512": (0.25, 0.35)}
"""Largest densities of a Linear layer, for batches up to ONE_STRUCTURE and beyond."""

FEWEST_CHANNELS = 4
ANY_SIZE = 2**62
CONV2D: dict[str, tuple[tuple[int, float], ...]] = {
    "scalar": ((8, 0.2), (ANY_SIZE, 0.1)),
    "avx2": ((2, 0.22), (4, 0.48), (8, 0.3), (16, 0.22), (ANY_SIZE, 0.25)),
    "avx512": ((2, 0.2), (4, 0.4), (8, 0.35), (ANY_SIZE, 0.25)),
}
"""Largest densities of a convolution, for maps up to a size."""

FEW_WEIGHTS = 1 << 15
FEW_DENSITY = {"avx2": 0.45, "avx512": 0.5}
"""The same for layers of so many places and fewer, where that was measured."""

RULES: dict[str, Callable[[Shape, int, str], float]] = {"linear": _linear, "conv2d": _conv2d}
