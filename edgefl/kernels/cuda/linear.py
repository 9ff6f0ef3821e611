"""Linear layers: forward, and the gradients of active features; sums over channels: csrc/cuda/linear.cuh."""

from __future__ import annotations
