"""Calls to CUDA kernels: recorded once, captured as a graph when they first run, and launched as one.

Arrays that lie in a block of memory.py are used where they are. Others (ids, an index buffer, sums, whatever a test
passes) are copied to the device before each run and, if a call writes them, back after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import BackendError

from ..arrays import Array
from ..checks import Check, require_array
from ..signature import Signature, ordered
from ..table import TABLE
from .device import Device, Launch
from .launch import At, Field, Ids, Launches, Planned, Scratch, is_empty
from .memory import Memory
from .replay import Graph, Steps, Taken
from .staging import Span, Staged, merged

Body = Callable[..., Launches]
MOST_VALUES = 1 << 31  # of an array: kernels count in int


class Operation(NamedTuple):
    """A row of the table, its checks, and the function that gives its launches."""

    row: Signature
    check: Check
    body: Body


def operations(bodies: Mapping[str, Body]) -> dict[str, Operation]:
    return {name: Operation(TABLE[name], Check(TABLE[name]), body) for name, body in bodies.items()}


class Recorded(NamedTuple):
    """A call whose shapes have been checked."""

    operation: Operation
    values: tuple[Any, ...]
    launches: tuple[Planned, ...]


class Program:
    """Calls to the operations, appended once and run many times. It keeps their arrays alive."""

    def __init__(self, device: Device, memory: Memory, known: Mapping[str, Operation]) -> None:
        self._device, self._memory, self._known = device, memory, known
        self._calls: list[Recorded] = []
        self._forget()

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, op: str, *args: Any, **named: Any) -> None:
        """Record one call. ValueError if there is no such operation or an argument is wrong; BackendError if it has no
        kernel.
        """
        self._calls.append(self._recorded(op, args, named))
        self._forget()

    def replace(self, position: int, op: str, *args: Any, **named: Any) -> None:
        """Put another call in the place of call `position`. Errors as for append."""
        if not 0 <= position < len(self._calls):
            raise ValueError(f"position={position}; expected 0 to {len(self._calls) - 1}")
        self._calls[position] = self._recorded(op, args, named)
        self._forget()

    def run(self) -> None:
        """Make all calls, in order."""
        with self._device.lock:
            self._device.enter()
            staged = self._ready()
            staged.upload(self._checked(staged))
            self._launch()
            staged.download()
            self._device.wait()

    def run_batches(self, index_buffer: Array, batches: NDArray[np.int32]) -> None:
        """For each row of batches [S, B]: copy it into index_buffer [B], which calls may read, then make all calls."""
        require_array("index_buffer", index_buffer, np.dtype(np.int32), 1)
        require_array("batches", batches, np.dtype(np.int32), 2)
        if batches.shape[1] != len(index_buffer):
            raise ValueError(f"batches has shape {batches.shape}; expected (any, {len(index_buffer)})")
        if not len(batches):
            return
        for extreme in (batches.min(axis=0), batches.max(axis=0)):
            index_buffer[:] = extreme
            self._check_readers(index_buffer)
        with self._device.lock:
            self._device.enter()
            staged = self._ready(index_buffer)
            staged.upload(self._checked(staged))
            if self._steps is None or self._steps.room < len(batches):
                index = self._memory.find(index_buffer) or staged.address(index_buffer.ctypes.data)
                self._steps = Steps(self._device, self._launches, index, batches.shape)
            self._steps.run(batches)
            staged.download()
        index_buffer[:] = batches[-1]

    def _launch(self) -> None:
        """One after another the first time; what runs again is worth a graph."""
        if self._graph is not None:
            self._device.replay(self._graph.handle)
        elif self._has_run:
            self._graph = Graph(self._device, self._launches)
            self._device.replay(self._graph.handle)
        else:
            for each in self._launches:
                self._device.launch(each)
        self._has_run = True

    def _check_readers(self, index: Array) -> None:
        for call in self._calls:
            if any(value is index for value in call.values):
                self._check(call.operation, call.values)

    def _recorded(self, op: str, args: tuple[Any, ...], named: dict[str, Any]) -> Recorded:
        if op not in TABLE:
            raise ValueError(f"op={op!r}; expected an operation of edgefl.kernels.table.TABLE")
        if op not in self._known:
            raise BackendError(f"{op} has no CUDA kernel; expected one of {', '.join(sorted(self._known))}")
        operation = self._known[op]
        values = ordered(operation.row, args, named)
        self._check(operation, values)
        given = [At(value) if isinstance(value, np.ndarray) else value for value in values]
        launches = tuple(each for each in operation.body(*given) if not is_empty(each))
        return Recorded(operation, values, launches)

    def _check(self, operation: Operation, values: tuple[Any, ...]) -> None:
        """What lies on the device is not looked at: zeros stand for it."""
        seen = tuple(self._seen(value) if isinstance(value, np.ndarray) else value for value in values)
        operation.check(seen)
        for argument, value in zip(operation.row.arguments, values, strict=True):
            if isinstance(value, np.ndarray) and value.size >= MOST_VALUES:
                raise ValueError(f"{argument.name} has shape {value.shape}; expected fewer than {MOST_VALUES} values")

    def _seen(self, value: Array) -> Array:
        return (
            value if value.dtype.kind != "i" or self._memory.find(value) is None else np.zeros(value.shape, value.dtype)
        )

    # ---- on the device -----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._staged: Staged | None = None
        self._launches: tuple[Launch, ...] = ()
        self._graph: Graph | None = None
        self._steps: Steps | None = None
        self._has_run = False
        self._scratch: Any = None

    def _ready(self, *more: Array) -> Staged:
        """Where everything is, these arrays too; once for all runs."""
        if self._staged is None:
            self._staged = staged = Staged(self._device, self._elsewhere(*more))
            most = max((_scratch_end(each.fields) for call in self._calls for each in call.launches), default=0)
            self._scratch = Taken(self._device, most) if most else None
            base = self._scratch.block.address if most else 0
            resolve = _Resolver(self._memory, staged, base)
            self._launches = tuple(resolve(each) for call in self._calls for each in call.launches)
        return self._staged

    def _elsewhere(self, *more: Array) -> list[Span]:
        """The arrays that lie in no block."""
        given = [
            (value, argument.is_written)
            for call in self._calls
            for argument, value in zip(call.operation.row.arguments, call.values, strict=True)
            if isinstance(value, np.ndarray)
        ]
        given += [(value, False) for value in more]
        return merged(each for each in given if each[0].size and self._memory.find(each[0]) is None)

    def _checked(self, staged: Staged) -> bool:
        """Whether inputs have changed; what they say now is checked then."""
        if not staged.is_changed():
            return False
        try:
            for call in self._calls:
                if any(argument.below for argument in call.operation.row.arguments):
                    self._check(call.operation, call.values)
        except ValueError:
            staged.forget()
            raise
        return True


class _Resolver:
    """Gives launches their addresses."""

    def __init__(self, memory: Memory, staged: Staged, scratch: int) -> None:
        self._memory, self._staged, self._scratch = memory, staged, scratch

    def __call__(self, planned: Planned) -> Launch:
        packed = b"".join(self._packed(field) for field in planned.fields)
        return Launch(planned.kernel, planned.grid, planned.threads, packed)

    def _packed(self, field: Field) -> bytes:
        if isinstance(field, Ids):
            return self._packed(field.list) + struct.pack("<q", field.count)
        if isinstance(field, float):
            return struct.pack("<d", field)
        return struct.pack("<q", self._number(field))

    def _number(self, field: At | Scratch | int | None) -> int:
        if isinstance(field, At):
            return self._address(field)
        return self._scratch + field.offset if isinstance(field, Scratch) else int(field or 0)

    def _address(self, at: At) -> int:
        if not at.array.size:
            return 0
        address = self._memory.find(at.array)
        return (self._staged.address(at.array.ctypes.data) if address is None else address) + at.offset


def _scratch_end(fields: tuple[Field, ...]) -> int:
    return max((field.offset + field.size for field in fields if isinstance(field, Scratch)), default=0)
