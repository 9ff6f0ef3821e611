"""Device memory that the host knows by numpy arrays: blocks whose bytes lie on the device and, where asked, on the
host.

A view of such an array stands for the device's bytes at the same position. `wrote` copies what the host has put into a
view to the device. `fetch` copies the device's bytes to the view. Between these calls host and device may differ. Host
memory that nobody copies is never touched, so it takes address space alone.

Where host and device share one memory, blocks are still device memory, as the device's caches keep nothing of the
host's pages (CUDA for Tegra, table 1). Samples are read once a step, and the device reads them in place there.
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
    """Host bytes [first, first + size), and their address on the device."""

    first: int
    size: int
    address: int


class DeviceMemory:
    """The blocks of a device. This class is thread-safe."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._mapped: list[Mapped] = []
        self._pins: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by their first byte

    def block(self, size: int) -> NDArray[np.uint8]:
        """Return new uninitialised memory that starts on a cache line.

        Raises MemoryLimitError if the device has too little memory, and MemoryError if the host has too little.
        """
        with self._device.used():
            owner = np.empty(size + ALIGNMENT, np.uint8)
            start = -owner.ctypes.data % ALIGNMENT
            block = self._device.allocate(size)
            whole = owner[start : start + size]
            self._know(owner, Mapped(whole.ctypes.data, size, block.address), partial(self._device.free, block))
            return whole

    def hold(self, array: Array) -> Array:
        """Return an array for calls to read, which is valid as long as this result lives.

        It is `array` itself if that lies in a block, a view of its bytes if the device reads them in place, and else a
        copy on the device.
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
        """Copy what the host has written to these views to the device. Views of other memory are ignored."""
        for view in views:
            self._copy(view, self._device.upload, is_upload=True)

    def fetch(self, *views: Array) -> None:
        """Copy the device's bytes to these views, which the host is about to read."""
        for view in views:
            self._copy(view, self._device.download, is_upload=False)

    def find(self, view: Array) -> int | None:
        """Return the device address of a C-contiguous view, or None unless one block or held array has all of it."""
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
        """Return the pinned bytes that hold an array, and pin them if that is possible. Return None otherwise."""
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
        """Unpin an array. It was kept until now, because the driver knows its pages by their addresses."""
        self._device.unpin(array.ctypes.data)

    def _know(self, owner: Any, mapped: Mapped, free: Callable[[], None]) -> None:
        """Register bytes, which `free` gives back. Every view of them keeps `owner` alive."""
        insort(self._mapped, mapped)
        weakref.finalize(owner, self._forget, mapped, free).atexit = False

    def _forget(self, mapped: Mapped, free: Callable[[], None]) -> None:
        """Forget bytes at once, as the host may reuse them. The driver is called later (see CudaDevice.later)."""
        self._mapped.remove(mapped)
        self._device.later(free)


def _part(pin: Any, array: Array) -> Array:
    """Return the array again, as a view that keeps its pinned bytes alive."""
    part: Array = np.ndarray(array.shape, array.dtype, memoryview(pin), array.ctypes.data - ctypes.addressof(pin))
    return part
