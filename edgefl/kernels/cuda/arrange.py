"""Concatenation, padding, upsampling, transposition, embeddings: csrc/cuda/arrange.cuh."""

from __future__ import annotations
