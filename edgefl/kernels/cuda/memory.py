"""Device memory that the host knows by numpy arrays: blocks whose bytes lie on the device and, where asked, here.

A view of such an array stands for the device's bytes at the same place. `wrote` copies what the host has put into a
view to the device, `fetch` the device's bytes to the view; between those the two differ. Host memory that nobody copies
is never touched, so it takes address space alone. Where host and device share one memory, blocks are the device's all
the same, as its caches keep nothing of the host's pages (CUDA for Tegra, table 1); what is read once a step, samples,
is read in place there.
"""

from __future__ import annotations

import ctypes
import weakref
from bisect import bisect_right, insort
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..memory import ALIGNMENT
from .device import CudaDevice


class Mapped(NamedTuple):
    """Host bytes [first, first + size) and where they are on the device."""

    first: int
    size: int
    address: int


class DeviceMemory:
    """The blocks of a device. Thread-safe."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._mapped: list[Mapped] = []
        self._pins: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by their first byte

    def block(self, size: int) -> NDArray[np.uint8]:
        """New memory, uninitialised, that starts on a cache line. Raises MemoryLimitError; MemoryError where it is the
        host's.
        """
        with self._device.used():
            owner = np.empty(size + ALIGNMENT, np.uint8)
            start = -owner.ctypes.data % ALIGNMENT
            block = self._device.allocate(size)
            whole = owner[start : start + size]
            self._know(owner, Mapped(whole.ctypes.data, size, block.address), partial(self._device.free, block))
            return whole

    def hold(self, array: Array) -> Array:
        """An array for calls to read, as long as the result lives: itself, if it lies in a block; the very bytes, where
        the device reads them in place; else a copy on the device.
        """
        array = np.require(array, requirements=("C", "A"))  # a GPU reads no word across two
        with self._device.used():
            pin = self._pinned(array)
            if pin is not None:
                return _part(pin, array)
            if self.find(array) is not None:
                return array
            held = self.block(array.nbytes).view(array.dtype).reshape(array.shape)
            address = self.find(held)
            if address is not None:  # there are any values
                self._device.upload(address, array.ctypes.data, array.nbytes)
            return held

    def wrote(self, *views: Array) -> None:
        """The host has written these; what is no view of a block needs no telling."""
        for view in views:
            self._copy(view, self._device.upload, is_upload=True)

    def fetch(self, *views: Array) -> None:
        """The host is about to read these."""
        for view in views:
            self._copy(view, self._device.download, is_upload=False)

    def find(self, view: Array) -> int | None:
        """Where a C-contiguous view is on the device; None unless all of it is of one block, or of what is held."""
        first, every = view.ctypes.data, self._mapped.copy()  # finalizers take some out at any time
        at = bisect_right(every, (first, 1 << 62)) - 1
        if at < 0 or not view.size:
            return None
        mapped = every[at]
        return mapped.address + first - mapped.first if first + view.nbytes <= mapped.first + mapped.size else None

    def _copy(self, view: Array, copy: Any, is_upload: bool) -> None:
        address = self.find(view)
        if address is None:
            return
        with self._device.used():
            copy(*((address, view.ctypes.data) if is_upload else (view.ctypes.data, address)), view.nbytes)

    def _pinned(self, array: Array) -> Any:
        """The pinned bytes that an array is of, if it is, or can be pinned."""
        first, size = array.ctypes.data, array.nbytes
        for start, pin in self._pins.items():
            if start <= first and first + size <= start + len(pin):
                return pin
        address = None if not size or self.find(array) is not None else self._device.pin(first, size)
        if address is None:
            return None
        pin = self._pins[first] = (ctypes.c_uint8 * size).from_address(first)
        self._know(pin, Mapped(first, size, address), partial(self._unpin, array))
        return pin

    def _unpin(self, array: Array) -> None:
        """The array has been kept until now: the driver knows its pages by their addresses."""
        self._device.unpin(array.ctypes.data)

    def _know(self, owner: Any, mapped: Mapped, free: Callable[[], None]) -> None:
        """owner: what every view of these bytes keeps alive."""
        insort(self._mapped, mapped)
        weakref.finalize(owner, self._forget, mapped, free).atexit = False

    def _forget(self, mapped: Mapped, free: Callable[[], None]) -> None:
        """The host bytes are about to be somebody else's, so at once; no call of the driver, see CudaDevice.later."""
        self._mapped.remove(mapped)
        self._device.later(free)


def _part(pin: Any, array: Array) -> Array:
    """The array again, as a view that keeps its pinned bytes."""
    part: Array = np.ndarray(array.shape, array.dtype, memoryview(pin), array.ctypes.data - ctypes.addressof(pin))
    return part
