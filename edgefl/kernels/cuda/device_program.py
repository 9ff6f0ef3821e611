"""A program on the device: the addresses of its arrays, its launches with addresses, and the graphs made of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .device import CudaDevice, Launch
from .graph_replay import CudaGraph, StepReplay
from .launch import KernelArray, PlannedLaunch, Scratch, Value
from .memory import DeviceMemory
from .staging import StagedArrays, merged

_NOWHERE = 256  # address of an array without values. Null would mean that there is no array


class ResidentProgram:
    """A program that is ready to run. `arrays` are all arrays of its launches, each with whether it is written."""

    def __init__(
        self,
        device: CudaDevice,
        memory: DeviceMemory,
        arrays: Iterable[tuple[Array, bool]],
        planned: Sequence[PlannedLaunch],
    ) -> None:
        self._device, self._memory = device, memory
        self.staged = StagedArrays(
            device, merged(each for each in arrays if each[0].size and memory.find(each[0]) is None)
        )
        self._scratch = device.scratch(scratch_of(planned))
        self._generation = device.generation
        self._launches = tuple(self._resolved(each) for each in planned)
        self._graph: CudaGraph | None = None
        self._steps: StepReplay | None = None
        self._has_run = False

    def serves(self, *arrays: Array) -> bool:
        """Return whether these arrays are on the device, and the scratch memory is still where it was."""
        return self._generation == self._device.generation and all(
            self._address_of(each) is not None for each in arrays
        )

    def launch(self) -> None:
        """Make the launches one after another the first time, and as a graph from the second time on."""
        if not self._has_run:
            for each in self._launches:
                self._device.launch(each)
        else:
            self._graph = self._graph or CudaGraph(self._device, self._launches)
            self._device.replay(self._graph.handle)
        self._has_run = True

    def launch_steps(self, index: Array, batches: NDArray[np.int32]) -> None:
        """Make all launches once for each row of `batches`, which is copied to `index` before them."""
        if self._steps is None or self._steps.room < len(batches):
            self._steps = StepReplay(self._device, self._launches, self._address(KernelArray(index)), batches.shape)
        self._steps.run(batches)

    def _resolved(self, planned: PlannedLaunch) -> Launch:
        packed = b"".join(self._packed(field) for field in planned.fields)
        return Launch(planned.kernel, planned.grid, planned.threads, packed)

    def _packed(self, field: Value) -> bytes:
        if isinstance(field, float):
            return struct.pack("<d", field)
        return struct.pack("<q", self._number(field))

    def _number(self, field: KernelArray | Scratch | int | None) -> int:
        if isinstance(field, KernelArray):
            return self._address(field)
        if isinstance(field, Scratch):
            return self._scratch + field.offset
        return int(field or 0)

    def _address(self, at: KernelArray) -> int:
        if not at.array.size:
            return _NOWHERE
        address = self._address_of(at.array)
        assert address is not None  # of an array that this was made with
        return address + at.offset

    def _address_of(self, array: Array) -> int | None:
        address = self._memory.find(array)
        return self.staged.address(array.ctypes.data) if address is None else address


def scratch_of(planned: Iterable[PlannedLaunch]) -> int:
    """Return the bytes of scratch memory that launches use."""
    fields = [field for each in planned for field in each.fields if isinstance(field, Scratch)]
    return max((field.offset + field.size for field in fields), default=0)
