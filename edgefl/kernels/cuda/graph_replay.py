"""Launches as a graph that is replayed: once, or once for each of many batches."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .device import CudaDevice, Launch
from .launch import THREADS
from .structs import declare, members, struct_of

declare(
    {
        # So many batches [steps, size] as step says have been taken to index [size].
        "next_batch": "step:int32[]! batches:int32[] index:int32[]! size",
    }
)


class CudaGraph:
    """A captured graph, which is dropped with this object."""

    def __init__(self, device: CudaDevice, launches: Sequence[Launch]) -> None:
        self.handle = device.capture(launches)
        weakref.finalize(self, device.later, partial(device.drop, self.handle)).atexit = False


class PooledAllocation:
    """A block of device memory, which is given back with this object."""

    def __init__(self, device: CudaDevice, size: int) -> None:
        self.block = device.take(size)
        weakref.finalize(self, device.later, partial(device.give, self.block)).atexit = False


class StepReplay:
    """The launches of a step, behind a launch that takes the next batch. There are at most `room` batches."""

    def __init__(self, device: CudaDevice, launches: Sequence[Launch], index: int, shape: tuple[int, ...]) -> None:
        self._device, self.room, self._size = device, shape[0], shape[1]
        self._taken = PooledAllocation(device, 4 * (1 + self.room * self._size))
        step, batches = self._taken.block.address, self._taken.block.address + 4
        given = {"step": step, "batches": batches, "index": index, "size": self._size}
        fields = [given[member.name] for member in members(struct_of("next_batch"))]
        first = Launch("next_batch", (1, 1, 1), THREADS, struct.pack(f"<{len(fields)}q", *fields))
        self._graph = CudaGraph(device, (first, *launches))

    def run(self, batches: NDArray[np.int32]) -> None:
        """Run one step for each row of `batches`."""
        sent = np.concatenate([np.zeros(1, np.int32), batches.reshape(-1)])
        self._device.upload(self._taken.block.address, sent.ctypes.data, sent.nbytes)
        self._device.replay(self._graph.handle, len(batches))
