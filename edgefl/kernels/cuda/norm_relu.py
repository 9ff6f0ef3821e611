"""Normalisation, rectifier and pool in one: csrc/cuda/norm_relu.cuh."""

from __future__ import annotations
