"""Device memory that the host knows by numpy arrays: blocks whose bytes lie on the device and, where asked, here.

A view of such an array stands for the device's bytes at the same place. `wrote` copies what the host has put into a
view to the device, `fetch` the device's bytes to the view; between those the two differ. Host memory that nobody copies
is never touched, so it takes address space alone. Where host and device share one memory there is one copy of both.
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
from .device import MAPPED, Device


class Mapped(NamedTuple):
    """Host bytes [first, first + size) and where they are on the device."""

    first: int
    size: int
    address: int


class Memory:
    """The blocks of a device. Thread-safe."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._mapped: list[Mapped] = []

    def block(self, size: int) -> NDArray[np.uint8]:
        """New memory, uninitialised, that starts on a cache line. Raises MemoryLimitError; MemoryError where it is the
        host's.
        """
        with self._device.lock:
            self._device.enter()
            return self._shared(size) if self._device.is_integrated else self._apart(size)

    def hold(self, array: Array) -> Array:
        """The device's copy of an array that calls read, as long as the result lives; itself, if it lies there."""
        if self.find(array) is not None:
            return array
        array = np.ascontiguousarray(array)
        held = self.block(array.nbytes).view(array.dtype).reshape(array.shape)
        mapped = self.find(held)
        assert mapped is not None  # it has just been made
        with self._device.lock:
            self._device.enter()
            self._device.upload(mapped, array.ctypes.data, array.nbytes)
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
        """Where a view is on the device; None if it is of no block."""
        first = view.ctypes.data
        at = bisect_right(self._mapped, (first, 1 << 62)) - 1
        if at < 0 or not view.size:
            return None
        mapped = self._mapped[at]
        return mapped.address + first - mapped.first if first < mapped.first + mapped.size else None

    def _copy(self, view: Array, copy: Any, is_upload: bool) -> None:
        address = self.find(view)
        if address is None:
            return
        with self._device.lock:
            self._device.enter()
            if self._device.is_integrated:
                self._device.wait()
            elif is_upload:
                copy(address, view.ctypes.data, view.nbytes)
            else:
                copy(view.ctypes.data, address, view.nbytes)

    def _apart(self, size: int) -> NDArray[np.uint8]:
        owner = np.empty(size + ALIGNMENT, np.uint8)
        start = -owner.ctypes.data % ALIGNMENT
        block = self._device.allocate(size)
        return self._known(owner, owner[start : start + size], block.address, partial(self._device.free, block))

    def _shared(self, size: int) -> NDArray[np.uint8]:
        host = self._device.driver.handle("cuMemHostAlloc", max(size, 1), MAPPED)
        address = self._device.driver.address("cuMemHostGetDevicePointer_v2", host, 0)
        assert host.value is not None
        owner = (ctypes.c_uint8 * max(size, 1)).from_address(host.value)
        whole: Array = np.ndarray(size, np.uint8, memoryview(owner))  # which keeps the owner alive
        free = partial(self._device.driver.call, "cuMemFreeHost", host)
        return self._known(owner, whole, address, free)

    def _known(self, owner: Any, whole: NDArray[np.uint8], address: int, free: Callable[[], None]) -> NDArray[np.uint8]:
        """owner: what every view of these bytes keeps alive."""
        mapped = Mapped(whole.ctypes.data, whole.size, address)
        insort(self._mapped, mapped)
        weakref.finalize(owner, self._forget, mapped, free).atexit = False
        return whole

    def _forget(self, mapped: Mapped, free: Callable[[], None]) -> None:
        """The host bytes are about to be somebody else's, so at once; no call of the driver, see Device.later."""
        self._mapped.remove(mapped)
        self._device.later(free)
