"""Linear layers of masked weights, at the mask only: csrc/cuda/sparse_linear.cuh."""

from __future__ import annotations
