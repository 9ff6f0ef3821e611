"""Convolutions of masked weights, at the mask only: csrc/cuda/sparse_convolution.cuh."""

from __future__ import annotations
