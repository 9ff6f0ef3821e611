"""Batch, group and layer normalisation: csrc/cuda/norm.cuh."""

from __future__ import annotations
