"""SGD, Nesterov, Adam, and clipping: csrc/cuda/update.cuh."""

from __future__ import annotations
