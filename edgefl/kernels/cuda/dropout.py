"""Dropout, from words of a counter-based stream: csrc/cuda/dropout.cuh."""

from __future__ import annotations
