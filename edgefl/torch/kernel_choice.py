"""The choice of layers that the native kernels compute faster than torch, by shape alone. Torch computes other layers.

The rule was measured with `python -m bench converted --layers`, and docs/performance-notes.md has the figures. Layers
with frozen neurons always run on the native kernels, because they have less to compute.
"""

from __future__ import annotations

FEWEST = 1_500_000
"""The least multiply-adds of a Linear layer's forward pass for a native kernel.

For fewer multiply-adds, a call costs more time than the kernel gains.
"""

STRIDE = 1024
"""The row length, in floats, whose multiples make torch slow.

Such rows lie a multiple of 4 KB apart and share their places in the cache, which MKL's products do not avoid.
"""

CELLS = 64
"""The least number of cells of a plane on which native kernels are always faster.

On smaller planes, 1x1 convolutions are plain products, and torch's group norm and ReLU are as fast as the native ones.
"""


def linear(rows: int, inputs: int, outputs: int) -> bool:
    """Return whether the kernels are faster for a Linear layer on a batch of `rows` rows."""
    return inputs % STRIDE == 0 and rows * inputs * outputs >= FEWEST


def convolution(kernel: tuple[int, ...], stride: tuple[int, ...], groups: int, cells: int) -> bool:
    """Return whether the kernels are faster for a convolution of planes of `cells` cells."""
    return cells >= CELLS or groups > 1 or kernel != (1, 1) or stride != (1, 1)


def norm_block(is_by_groups: bool, has_pool: bool, cells: int) -> bool:
    """Return whether the kernels are faster for a norm with its ReLU, and maybe a pool, on planes of `cells` cells."""
    return has_pool or cells >= (CELLS if is_by_groups else 2)
