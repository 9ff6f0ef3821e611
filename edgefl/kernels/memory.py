"""The memory in which the kernels of a backend work: the host's memory, or the device's memory (cuda/memory.py).

A caller that keeps arrays over many calls takes them as a block of this memory. It says when the host has written to an
array, and when the host is about to read it. All other arrays are copied for each call, where a backend needs that.
"""

from __future__ import annotations

import ctypes
import math
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .arrays import Array

ALIGNMENT = 64  # bytes: a cache line, and the widest SIMD vector


class BackendMemory(Protocol):
    """The protocol of a backend's MEMORY."""

    def block(self, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialised bytes that start on a cache line.

        Raises MemoryError if the host has too little memory, and MemoryLimitError if a device has too little.
        """

    def hold(self, array: Array) -> Array:
        """Return an array for calls to read, valid as long as this result lives and nobody writes to `array`."""

    def wrote(self, *views: Array) -> None:
        """Say that the host has written to these views."""

    def fetch(self, *views: Array) -> None:
        """Say that the host is about to read these views, or to write to parts of them."""


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Return `size` uninitialised bytes of host memory that start on a cache line."""
    return _aligned(np.empty(size + ALIGNMENT, np.uint8), size)


def aligned_zeros(size: int) -> NDArray[np.uint8]:
    """Return `size` zero bytes that start on a cache line. Large memory is only address space until it is written."""
    return _aligned(np.zeros(size + ALIGNMENT, np.uint8), size)


def _aligned(owner: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    start = -owner.ctypes.data % ALIGNMENT
    return owner[start : start + size]


class HostMemory:
    """The memory of the process itself, where nothing has to be copied."""

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
    found: BackendMemory = vars(backend).get("MEMORY", HOST)  # getattr takes ten times as long for a missing name
    return found


def zeros(memory: BackendMemory, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in a block of its own."""
    dtype = np.dtype(dtype)
    made = memory.block(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    made[...] = 0
    memory.wrote(made)
    return made


def give_back() -> None:
    """Give memory that was freed back to the operating system. Without glibc the function does nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
