"""Max and average pools: csrc/cuda/pool.cuh."""

from __future__ import annotations
