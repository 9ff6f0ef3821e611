"""Calls to CUDA kernels: recorded once, captured as a graph when they first run, and launched as one.

Arrays that lie in a block of memory.py are used where they are. Others (ids, an index buffer, sums, whatever a test
passes) are copied to the device before each run and, if a call writes them, back after it.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import BackendError

from ..arrays import Array
from ..checks import Check, require_array
from ..signature import Signature, ordered
from ..table import TABLE
from .device import Block, Device, Launch
from .launch import At, Field, Ids, Launches, Planned, Scratch, is_empty
from .memory import Memory

Body = Callable[..., Launches]
MOST_VALUES = 1 << 31  # of an array: kernels count in int
_ALIGNED = 256


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


class Staged:
    """Copies on the device of arrays that lie elsewhere, by where they are: those that are only read come first."""

    def __init__(self, device: Device, arrays: Mapping[tuple[int, int], tuple[Array, bool]]) -> None:
        self._device = device
        ordered = sorted(arrays.items(), key=lambda item: item[1][1])
        self._arrays, self._places = [each for _, each in ordered], dict[tuple[int, int], int]()
        self._offsets: list[int] = []
        end = 0
        for key, (array, _) in ordered:
            self._places[key] = len(self._offsets)
            self._offsets.append(end)
            end += -(-array.nbytes // _ALIGNED) * _ALIGNED
        self._mirror = np.zeros(end, np.uint8)
        self._read_end = next((self._offsets[i] for i, (_, written) in enumerate(self._arrays) if written), end)
        self._is_fresh = False
        sizes = [array.nbytes for array, _ in self._arrays] if device.is_exact else [end]
        self._blocks = [device.take(size) for size in sizes]
        weakref.finalize(self, _give, device, self._blocks).atexit = False

    def address(self, key: tuple[int, int]) -> int:
        place = self._places[key]
        if self._device.is_exact:
            return self._blocks[place].address
        return self._blocks[0].address + self._offsets[place]

    def is_changed(self) -> bool:
        """Takes up what the host's arrays say now: whether one that is only read says something new."""
        before = self._mirror[: self._read_end].copy()
        for (array, _), offset in zip(self._arrays, self._offsets, strict=True):
            self._mirror[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        is_changed, self._is_fresh = not self._is_fresh or bool((before != self._mirror[: self._read_end]).any()), True
        return is_changed

    def upload(self, is_changed: bool) -> None:
        """What is only read if it has changed, and all that is written."""
        for first, size, address in self._pieces(0 if is_changed else self._read_end):
            self._device.upload(address, self._mirror.ctypes.data + first, size)

    def download(self) -> None:
        for first, size, address in self._pieces(self._read_end):
            self._device.download(self._mirror.ctypes.data + first, address, size)
        for (array, is_written), offset in zip(self._arrays, self._offsets, strict=True):
            if is_written:
                array.reshape(-1).view(np.uint8)[:] = self._mirror[offset : offset + array.nbytes]

    def _pieces(self, first: int) -> list[tuple[int, int, int]]:
        """Of the mirror from a place on: where, how much, and its address."""
        if not self._device.is_exact:
            return [(first, len(self._mirror) - first, self._blocks[0].address + first)]
        chosen = [place for place, offset in enumerate(self._offsets) if offset >= first]
        return [(self._offsets[i], self._arrays[i][0].nbytes, self._blocks[i].address) for i in chosen]


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
            self._device.replay(self._graph_of(self._launches))
            staged.download()
            self._device.wait()

    def run_batches(self, index_buffer: Array, batches: NDArray[np.int32]) -> None:
        """For each row of batches [S, B]: copy it into index_buffer [B], which calls may read, then make all calls."""
        require_array("index_buffer", index_buffer, np.dtype(np.int32), 1)
        require_array("batches", batches, np.dtype(np.int32), 2)
        if batches.shape[1] != len(index_buffer):
            raise ValueError(f"batches has shape {batches.shape}; expected (any, {len(index_buffer)})")
        for batch in batches:
            index_buffer[:] = batch
            self.run()

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
        self._graph: Any = None
        self._scratch: Any = None

    def _ready(self) -> Staged:
        """Where everything is; once for all runs."""
        if self._staged is None:
            self._staged = staged = Staged(self._device, self._elsewhere())
            most = max((_scratch_end(each.fields) for call in self._calls for each in call.launches), default=0)
            self._scratch = _Taken(self._device, most) if most else None
            base = self._scratch.block.address if most else 0
            resolve = _Resolver(self._memory, staged, base)
            self._launches = tuple(resolve(each) for call in self._calls for each in call.launches)
        return self._staged

    def _elsewhere(self) -> dict[tuple[int, int], tuple[Array, bool]]:
        """The arrays that lie in no block, and whether a call writes them."""
        found: dict[tuple[int, int], tuple[Array, bool]] = {}
        for call in self._calls:
            for argument, value in zip(call.operation.row.arguments, call.values, strict=True):
                if isinstance(value, np.ndarray) and value.size and self._memory.find(value) is None:
                    _, is_written = found.get(_key(value), (value, False))
                    found[_key(value)] = (value, is_written or argument.is_written)
        return found

    def _checked(self, staged: Staged) -> bool:
        """Whether inputs have changed; what they say now is checked then."""
        is_changed = staged.is_changed()
        if is_changed:
            for call in self._calls:
                if any(argument.below for argument in call.operation.row.arguments):
                    self._check(call.operation, call.values)
        return is_changed

    def _graph_of(self, launches: tuple[Launch, ...]) -> Any:
        if self._graph is None:
            self._graph = _Graph(self._device, launches)
        return self._graph.handle


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
        return (self._staged.address(_key(at.array)) if address is None else address) + at.offset


class _Taken:
    """A block of the device's, given back with this."""

    def __init__(self, device: Device, size: int) -> None:
        self.block = device.take(size)
        weakref.finalize(self, _give, device, [self.block]).atexit = False


class _Graph:
    """A captured graph, dropped with this."""

    def __init__(self, device: Device, launches: tuple[Launch, ...]) -> None:
        self.handle = device.capture(launches)
        weakref.finalize(self, _drop, device, self.handle).atexit = False


def _give(device: Device, blocks: list[Block]) -> None:
    with device.lock:
        device.enter()
        device.wait()
        for block in blocks:
            device.give(block)


def _drop(device: Device, graph: Any) -> None:
    with device.lock:
        device.enter()
        device.drop(graph)


def _key(array: Array) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def _scratch_end(fields: tuple[Field, ...]) -> int:
    return max((field.offset + field.size for field in fields if isinstance(field, Scratch)), default=0)
