"""Gather and scatter of blocks of parameters: csrc/cuda/parameters.cuh."""

from __future__ import annotations
