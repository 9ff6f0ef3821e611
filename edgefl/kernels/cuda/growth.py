"""The largest gradients outside a mask: csrc/cuda/growth.cuh."""

from __future__ import annotations
