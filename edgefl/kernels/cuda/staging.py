"""Host arrays that calls use and that lie in no block of memory.py: they are copied to the device and back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .device import CudaDevice
from .graph_replay import PooledAllocation

_ALIGNED = 256


class Span(NamedTuple):
    """Host bytes [first, last), and whether a call writes some of them."""

    first: int
    last: int
    is_written: bool

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes as an array, which is valid as long as their owner lives."""
        memory = (ctypes.c_uint8 * (self.last - self.first)).from_address(self.first)
        return np.ndarray(len(memory), np.uint8, memoryview(memory))

    def has(self, array: Array) -> bool:
        """Return whether the first byte of the array is one of these bytes."""
        return self.first <= array.ctypes.data < self.last


class StagedArrays:
    """Copies on the device of arrays that lie elsewhere.

    Arrays that are only read come first. They are kept in a mirror, too, so that they are sent only when they have
    changed.
    """

    def __init__(self, device: CudaDevice, spans: Sequence[Span]) -> None:
        self._device = device
        self._spans = sorted(spans, key=lambda span: (span.is_written, span.first))
        self._offsets: list[int] = []
        self._end = self._read_end = 0
        for span in self._spans:
            self._offsets.append(self._end)
            self._end += -(-(span.last - span.first) // _ALIGNED) * _ALIGNED
            self._read_end = self._read_end if span.is_written else self._end
        self._bytes = [span.bytes for span in self._spans]
        self._mirror = np.zeros(self._end, np.uint8)
        self._is_fresh = False
        sizes = [each.size for each in self._bytes] if device.is_exact else [self._end]
        self._taken = [PooledAllocation(device, size) for size in sizes]

    def address(self, host: int) -> int | None:
        """Return the device address of a host byte, or None if the byte is not of these arrays."""
        for position, span in enumerate(self._spans):
            if span.first <= host < span.last:
                return self._address(position) + host - span.first
        return None

    def changed(self) -> list[Span]:
        """Copy the host's arrays to the mirror, and return the spans that are only read and have changed."""
        found = []
        for span, kept, here in self._sides():
            if not (span.is_written or (self._is_fresh and np.array_equal(kept, here))):
                found.append(span)
            kept[:] = here
        self._is_fresh = True
        return found

    def note(self, array: Array) -> None:
        """Take it that the device has what the host's `array` contains now."""
        for span, kept, here in self._sides():
            if span.has(array):
                first = array.ctypes.data - span.first
                kept[first : first + array.nbytes] = here[first : first + array.nbytes]

    def _sides(self) -> Iterator[tuple[Span, NDArray[np.uint8], NDArray[np.uint8]]]:
        """Yield each span with its bytes in the mirror and its bytes in the host's arrays."""
        for span, here, offset in zip(self._spans, self._bytes, self._offsets, strict=True):
            yield span, self._mirror[offset : offset + here.size], here

    def upload(self, is_changed: bool) -> None:
        """Upload arrays that are only read if they have changed, and all arrays that are written."""
        for first, size, address in self._pieces(0 if is_changed else self._read_end):
            self._device.upload(address, self._mirror.ctypes.data + first, size)

    def download(self) -> None:
        """Download the arrays that are written."""
        for first, size, address in self._pieces(self._read_end):
            self._device.download(self._mirror.ctypes.data + first, address, size)
        for span, kept, here in self._sides():
            if span.is_written:
                here[:] = kept

    def _address(self, position: int) -> int:
        return (
            self._taken[position].block.address
            if self._device.is_exact
            else self._taken[0].block.address + self._offsets[position]
        )

    def _pieces(self, first: int) -> list[tuple[int, int, int]]:
        """Return the pieces of the mirror from `first` on: offset, size in bytes, and device address."""
        if not self._device.is_exact:
            return [(first, self._end - first, self._taken[0].block.address + first)] if self._end > first else []
        chosen = [position for position, offset in enumerate(self._offsets) if offset >= first]
        return [(self._offsets[i], self._bytes[i].size, self._taken[i].block.address) for i in chosen]


def merged(arrays: Iterable[tuple[Array, bool]]) -> list[Span]:
    """Return the bytes of arrays as spans that do not overlap. A span is written if one of its arrays is written."""
    found: list[Span] = []
    for each in sorted(Span(array.ctypes.data, array.ctypes.data + array.nbytes, written) for array, written in arrays):
        if found and each.first < found[-1].last:
            last = found.pop()
            each = Span(last.first, max(last.last, each.last), last.is_written or each.is_written)
        found.append(each)
    return found
