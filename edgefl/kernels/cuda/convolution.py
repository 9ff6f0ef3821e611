"""Convolutions: forward, and the gradients of active channels: csrc/cuda/convolution.cuh."""

from __future__ import annotations
