"""Calls to CUDA kernels: recorded once, launched one by one the first time, and from then on as one captured graph.

Arrays that lie in a block of memory.py are used where they are. Other arrays (ids, an index buffer, sums, the arrays of
a test) are copied to the device before each run and, if a call writes them, back after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import BackendError

from ..arrays import Array
from ..checks import ArgumentCheck, require_array
from ..signature import Signature, ordered
from ..table import TABLE
from .batched_calls import GroupedCall, joined
from .device import CudaDevice
from .device_program import ResidentProgram, scratch_of
from .launch import KernelArray, Launches, PlannedLaunch, is_empty
from .memory import DeviceMemory
from .staging import StagedArrays

Body = Callable[..., Launches]
MOST_VALUES = 1 << 31  # values of an array, as kernels count in int
LOOKED_AT = ("ids", "hyper", "rates")  # floats whose values argument_rules.py reads, besides all integers
THE_HOSTS = ("structure", "structure_t")  # arrays that the host builds, so that host and device have equal bytes


class CudaOperation(NamedTuple):
    """A row of the table, its checks, and the function that gives its launches."""

    row: Signature
    check: ArgumentCheck
    body: Body


def operations(bodies: Mapping[str, Body]) -> dict[str, CudaOperation]:
    return {name: CudaOperation(TABLE[name], ArgumentCheck(TABLE[name]), body) for name, body in bodies.items()}


class RecordedCall(NamedTuple):
    """A call whose shapes have been checked, with its launches."""

    operation: CudaOperation
    values: tuple[Any, ...]
    launches: tuple[PlannedLaunch, ...]

    @property
    def arrays(self) -> list[tuple[Array, bool]]:
        """The arrays of the call, each with whether the call writes it."""
        named = zip(self.operation.row.arguments, self.values, strict=True)
        return [(value, argument.is_written) for argument, value in named if isinstance(value, np.ndarray)]


class CudaProgram:
    """A list of calls to the operations, appended once and run many times. It keeps their arrays alive."""

    def __init__(self, device: CudaDevice, memory: DeviceMemory, known: Mapping[str, CudaOperation]) -> None:
        self._device, self._memory, self._known = device, memory, known
        self._calls: list[RecordedCall] = []
        self._resident: ResidentProgram | None = None  # dropped when another call is recorded

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, op: str, *args: Any, **named: Any) -> None:
        """Record one call.

        Raises ValueError if there is no such operation or an argument is wrong, and BackendError if it has no CUDA
        kernel.
        """
        self._calls.append(self._recorded(op, args, named))
        self._resident = None

    def replace(self, position: int, op: str, *args: Any, **named: Any) -> None:
        """Replace call number `position` by another call. Raises ValueError for a wrong position, and otherwise as
        `append`.
        """
        if not 0 <= position < len(self._calls):
            raise ValueError(f"position={position}; expected 0 to {len(self._calls) - 1}")
        self._calls[position] = self._recorded(op, args, named)
        self._resident = None

    def run(self) -> None:
        """Make all calls, in order."""
        with self._running() as resident:
            resident.launch()

    def run_batches(self, index_buffer: Array, batches: NDArray[np.int32]) -> None:
        """Copy each row of batches [S, B] into index_buffer [B], which calls may read, and make all calls after each
        copy.
        """
        require_array("index_buffer", index_buffer, np.dtype(np.int32), 1)
        require_array("batches", batches, np.dtype(np.int32), 2)
        if batches.shape[1] != len(index_buffer):
            raise ValueError(f"batches has shape {batches.shape}; expected (any, {len(index_buffer)})")
        if not batches.size:
            return
        before, is_index = index_buffer.copy(), partial(is_, index_buffer)
        readers = [call for call in self._calls if any(map(is_index, call.values))]
        for extreme in (batches.min(axis=0), batches.max(axis=0)):
            index_buffer[:] = extreme
            for call in readers:
                self._check(call.operation, call.values)
        index_buffer[:] = before  # what the device has, if steps were run before
        with self._running(index_buffer) as resident:
            resident.launch_steps(index_buffer, batches)
            index_buffer[:] = batches[-1]
            resident.staged.note(index_buffer)

    def scratch_needed(self) -> int:
        """Return the bytes of scratch memory that the calls share for partial results."""
        return max((scratch_of(call.launches) for call in self._calls), default=0)

    def _recorded(self, op: str, args: tuple[Any, ...], named: dict[str, Any]) -> RecordedCall:
        if op not in TABLE:
            raise ValueError(f"op={op!r}; expected an operation of edgefl.kernels.table.TABLE")
        if op not in self._known:
            ArgumentCheck(TABLE[op])(ordered(TABLE[op], args, named))
            raise BackendError(f"{op} has no CUDA kernel; EDGEFL_KERNELS=native has one")
        operation = self._known[op]
        values = ordered(operation.row, args, named)
        self._check(operation, values)
        given = [KernelArray(value) if isinstance(value, np.ndarray) else value for value in values]
        launches = tuple(each for each in operation.body(*given) if not is_empty(each))
        return RecordedCall(operation, values, launches)

    def _check(self, operation: CudaOperation, values: tuple[Any, ...]) -> None:
        """Check the arguments, but not contents that a kernel may have written. Zeros stand for such contents.

        A list counts as full.
        """
        named = dict(zip(operation.row.names, values, strict=True))
        operation.check(tuple(self._seen(name, value, named) for name, value in named.items()))
        for name, value in named.items():
            if isinstance(value, np.ndarray) and value.size >= MOST_VALUES:
                raise ValueError(f"{name} has shape {value.shape}; expected fewer than {MOST_VALUES} values")

    def _seen(self, name: str, value: Any, named: Mapping[str, Any]) -> Any:
        if not isinstance(value, np.ndarray) or (value.dtype.kind not in "iu" and name not in LOOKED_AT):
            return value
        if name in THE_HOSTS or self._memory.find(value) is None:
            return value
        if name == "filled":
            return np.full(value.shape, named["magnitudes"].size, value.dtype)
        return np.zeros(value.shape, value.dtype)  # pages of a data set that nobody reads cost nothing

    @contextmanager
    def _running(self, *more: Array) -> Iterator[ResidentProgram]:
        """Copy arrays to the device before launches, and back after them. After an error nothing on the device is
        reused.
        """
        with self._device.used():
            resident = self._on_device(*more)
            try:
                resident.staged.upload(self._is_changed(resident.staged))
                yield resident
                resident.staged.download()
                self._device.wait()
            except BaseException:
                self._resident = None
                raise

    def _is_changed(self, staged: StagedArrays) -> bool:
        """Return whether inputs have changed. If so, check what they contain now."""
        changed = staged.changed()
        for call in self._calls if changed else ():
            named = zip(call.operation.row.arguments, call.values, strict=True)
            below = [value for argument, value in named if argument.below and isinstance(value, np.ndarray)]
            if any(span.has(value) for span in changed for value in below if value.size):
                self._check(call.operation, call.values)
        return bool(changed)

    def _on_device(self, *more: Array) -> ResidentProgram:
        """Return the program on the device, which is made once for all runs that name no further arrays than it has."""
        if self._resident is None or not self._resident.serves(*more):
            calls = [GroupedCall(call.launches, call.arrays) for call in self._calls]
            arrays = [each for call in calls for each in call.arrays] + [(value, False) for value in more]
            launches = list(joined(calls))
            self._resident = ResidentProgram(self._device, self._memory, arrays, launches)
        return self._resident
