"""Losses and their gradients: csrc/cuda/loss.cuh."""

from __future__ import annotations
