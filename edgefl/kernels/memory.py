"""The memory in which a backend's kernels work: the host's, or that of the backend (cuda/memory.py).

Whoever keeps arrays over many calls takes them as a block of that memory, and says when the host has written to one and
when it is about to read. Arrays of other origin are copied for each call where they have to be.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .arrays import Array

ALIGNMENT = 64  # bytes: a cache line, and the widest simd word


class BackendMemory(Protocol):
    """The protocol of a backend's MEMORY."""

    def block(self, size: int) -> NDArray[np.uint8]:
        """So many uninitialised bytes that start on a cache line. Raises MemoryError; a device's, MemoryLimitError."""

    def hold(self, array: Array) -> Array:
        """An array for calls to read, good as long as the result lives and nobody writes to the array."""

    def wrote(self, *views: Array) -> None:
        """The host has written to these."""

    def fetch(self, *views: Array) -> None:
        """The host is about to read these, or to write to parts of them."""


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Uninitialised memory of the host's that starts on a cache line."""
    return _aligned(np.empty(size + ALIGNMENT, np.uint8), size)


def aligned_zeros(size: int) -> NDArray[np.uint8]:
    """The same filled with zeros: where it is large, address space until it is written."""
    return _aligned(np.zeros(size + ALIGNMENT, np.uint8), size)


def _aligned(owner: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    start = -owner.ctypes.data % ALIGNMENT
    return owner[start : start + size]


class HostMemory:
    """The process's own, where nothing has to be copied."""

    def block(self, size: int) -> NDArray[np.uint8]:
        return aligned_bytes(size)

    def hold(self, array: Array) -> Array:
        return array

    def wrote(self, *views: Array) -> None:
        pass

    def fetch(self, *views: Array) -> None:
        pass


HOST = HostMemory()


def memory_of(backend: ModuleType) -> BackendMemory:
    found: BackendMemory = getattr(backend, "MEMORY", HOST)
    return found


def zeros(memory: BackendMemory, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros in a block of its own."""
    dtype = np.dtype(dtype)
    made = memory.block(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    made[...] = 0
    memory.wrote(made)
    return made
