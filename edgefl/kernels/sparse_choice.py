"""The choice of the masked layers that run sparse: one rule on shape, batch, density and instruction set.

A layer that the rule turns down runs dense, with a weight that is 0 outside its mask. So no layer is slower for its
mask. Each limit is a density up to which `python -m bench sparse` found forward and backward together to be faster than
both the dense kernels of that day and PyTorch's, less some room, as machines differ. The kernels are elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = Sequence[int]

LANES = {"scalar": 4, "neon": 4, "avx2": 8, "avx512": 16, "cuda": 1}
"""The number of examples that one vector of an instruction set holds. A GPU's kernels take one example at a time."""

ONE_STRUCTURE = 32
"""Largest batch whose Linear layers compute the gradient of their input from the forward structure."""

SCATTER = 24
"""The cost of scattering one weight into a whole array and gathering its gradient, in multiply-adds of a dense layer.

Sparse and dense execution in torch were measured to be equally fast at this cost.
"""

FEWEST = 64
"""The least number of inputs and of outputs of a sparse Linear layer. Smaller layers spend their time on calls."""


def runs_sparse(op: str, shape: Shape, batch: int, density: float, isa: str, *, scatters: bool = False) -> bool:
    """Return whether forward and backward of a masked layer should skip its zeros.

    op        "linear", shape [out_features, in_features], or "conv2d", shape [out_channels, in_channels, kernel_h,
              kernel_w, height, width] with the size of its input
    isa       the name that the backend's isa() returns, or "" for a backend without isa(), which computes dense
    scatters  whether the layer would otherwise run in torch, on a whole weight that its values are first written into
    Raises ValueError for another op.
    """
    if op not in RULES:
        raise ValueError(f"op={op!r}; expected one of {', '.join(RULES)}")
    if isa not in LANES or batch <= 0:
        return False
    limit = RULES[op](shape, batch, isa)
    if scatters:
        limit = max(limit * (1 + SCATTER / (batch * math.prod(shape[4:]))), _beside_torch(op, shape, isa))
    return density <= limit * _filled(batch, isa)


def keeps_transposed(op: str, batch: int) -> bool:
    """Return whether the input gradient of such a layer needs a transposed structure, with values of its own."""
    return op != "linear" or batch > ONE_STRUCTURE


def _filled(batch: int, isa: str) -> float:
    """Return the share of lanes that hold an example."""
    lanes = LANES[isa]
    return batch / (-(-batch // lanes) * lanes)


def _linear(shape: Shape, batch: int, isa: str) -> float:
    return LINEAR[isa][batch > ONE_STRUCTURE] if min(shape) >= FEWEST_OF.get(isa, FEWEST) else 0.0


def _conv2d(shape: Shape, batch: int, isa: str) -> float:
    """Return the largest density at which a convolution runs sparse.

    Small maps gain, as dense kernels have few positions among which they share the load of a weight. Maps of 2 x 2 are
    an exception: they have dense kernels of their own. Layers of few weights gain at any size, unless their channels
    pay for the transforms of dense tiles of 4x4 positions.
    """
    outs, ins, _, _, height, width = shape
    if ins < FEWEST_CHANNELS or batch < LEAST_BATCH.get(isa, 1):
        return 0.0
    by_size = next(density for size, density in CONV2D[isa] if max(height, width) <= size)
    has_few = math.prod(shape[:4]) <= FEW_WEIGHTS and ins >= FEW_CHANNELS and ins * outs < FOURS * (ins + outs)
    return FEW_DENSITY.get(isa, by_size) if has_few else by_size


def _beside_torch(op: str, shape: Shape, isa: str) -> float:
    """Return the largest density at which a layer runs sparse instead of in torch.

    Torch's own convolutions are slower than our dense kernels, except convolutions of one tap.
    """
    if op != "conv2d" or isa not in BESIDE_TORCH or shape[1] < FEWEST_CHANNELS or math.prod(shape[2:4]) == 1:
        return 0.0
    small, large = BESIDE_TORCH[isa]
    return small if max(shape[4:]) <= 4 else large


LINEAR: dict[str, tuple[float, float]] = {
    "scalar": (0.2, 0.2),
    "neon": (0.2, 0.2),
    "avx2": (0.35, 0.48),
    "avx512": (0.25, 0.35),
    "cuda": (0.05, 0.05),
}
"""Largest densities of a sparse Linear layer: for batches of at most ONE_STRUCTURE examples, and for larger ones.

NEON was not measured, because no board was available, and it has the densities of scalar. CUDA was measured on an H200
(bench/cuda_record).
"""

FEWEST_OF = {"cuda": 2048}
"""FEWEST of an instruction set, where it differs: layers of 1024 x 1024 take longer with masked kernels of CUDA."""

LEAST_BATCH = {"cuda": 64}
"""The least batch of a sparse convolution: of 16 examples it takes longer than a dense one on an H200."""

FEWEST_CHANNELS = 4
ANY_SIZE = 2**62
CONV2D: dict[str, tuple[tuple[int, float], ...]] = {
    "scalar": ((8, 0.2), (ANY_SIZE, 0.1)),
    "neon": ((8, 0.2), (ANY_SIZE, 0.1)),
    "avx2": ((2, 0.22), (4, 0.42), (8, 0.18), (16, 0.18), (ANY_SIZE, 0.2)),
    "avx512": ((2, 0.2), (4, 0.43), (8, 0.26), (16, 0.26), (ANY_SIZE, 0.26)),
    "cuda": ((2, 0.0), (ANY_SIZE, 0.05)),
}
"""Pairs of a largest height or width and the largest density of a sparse convolution up to that size."""

BESIDE_TORCH = {"avx2": (0.7, 0.52), "avx512": (0.7, 0.52)}
"""Largest densities of a convolution that would otherwise run in torch: for maps up to 4 x 4, and for larger maps."""

FEW_WEIGHTS, FEW_CHANNELS, FOURS = 1 << 15, 8, 24
FEW_DENSITY = {"avx2": 0.34, "avx512": 0.4}
"""Largest densities of a convolution with at most FEW_WEIGHTS weights, at least FEW_CHANNELS input channels, and too
few channels for dense tiles of 4x4 positions (FOUR_BALANCE of csrc/kernels/convolution/ways.inl.h). AVX-512 has less
than `python -m bench sparse` found, because a dense gradient below a pool reads only the values other than zero.

An instruction set that was not measured is absent, and CONV2D decides.
"""

RULES: dict[str, Callable[[Shape, int, str], float]] = {"linear": _linear, "conv2d": _conv2d}
