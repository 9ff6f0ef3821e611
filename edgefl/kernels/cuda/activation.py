"""Smooth activations and PReLU: csrc/cuda/activation.cuh."""

from __future__ import annotations
