"""Gathers of batches and channels: csrc/cuda/batch.cuh."""

from __future__ import annotations
