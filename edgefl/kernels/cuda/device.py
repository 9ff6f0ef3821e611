"""The GPU: its context, stream, kernels and memory. launch.py and the families say which kernels a call takes.

A process has one device, which is made when the backend is first asked for. All work happens on one stream, under one
lock. driver.py tells the source of the functions that are called here.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from edgefl.errors import BackendError, MemoryLimitError

from . import compiled_images
from .driver import LEAST_VERSION, NOT_FOUND, Driver, DriverError

LEAST_CAPABILITY = (6, 0)
MAPPED = 2  # flag of host memory that the device sees
_MULTIPROCESSORS, _INTEGRATED, _MAJOR, _MINOR = 16, 18, 75, 76  # CUdevice_attribute
_MOST_THREADS = 0  # CUfunction_attribute
_NON_BLOCKING, _RELAXED = 1, 2  # flags of a stream, of a capture
_ROUND = 256  # bytes


class Launch(NamedTuple):
    """A kernel to start, with the bytes of its struct of arguments."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: bytes


class DeviceAllocation(NamedTuple):
    """A block of device memory: its address, and its size in bytes."""

    address: int
    size: int


class CudaDevice:
    """The first device of the machine. Raises ImportError with the reason if it cannot be used."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.lock = threading.RLock()
        self.is_exact = bool(os.environ.get("EDGEFL_CUDA_EXACT"))  # no block is rounded up or reused: for sanitizers
        self.held = 0  # bytes of device memory
        self._functions: dict[str, tuple[ctypes.c_void_p, int | None]] = {}
        self._spare: dict[int, list[DeviceAllocation]] = {}
        self._scratch, self.generation = DeviceAllocation(0, 0), 0
        self._unused: deque[Callable[[], None]] = deque()
        self._context: ctypes.c_void_p | None = None
        self._opened: list[Callable[[], None]] = []  # functions that give back what was opened, the last first
        try:
            self._open()
        except Exception as error:
            self.close()
            raise ImportError(f"no CUDA device: {error}") from error

    def _open(self) -> None:
        driver = self.driver
        driver.call("cuInit", 0)
        version = driver.number("cuDriverGetVersion")
        if version < LEAST_VERSION:
            raise ImportError(
                f"driver for {compiled_images.cuda(version)}; expected {compiled_images.cuda(LEAST_VERSION)} or newer"
            )
        device = driver.number("cuDeviceGet", 0)
        name = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode()
        self.capability = tuple(driver.number("cuDeviceGetAttribute", each, device) for each in (_MAJOR, _MINOR))
        if self.capability < LEAST_CAPABILITY:
            raise ImportError(f"{self.name} of capability {self.capability}; expected {LEAST_CAPABILITY} or more")
        self.multiprocessors = driver.number("cuDeviceGetAttribute", _MULTIPROCESSORS, device)
        self.is_integrated = bool(driver.number("cuDeviceGetAttribute", _INTEGRATED, device))
        found = compiled_images.found(version, self.capability)
        self._number = device
        self._context = driver.handle("cuDevicePrimaryCtxRetain", device)
        with self.used():
            self._module = compiled_images.loaded(driver, found)
            self._opened.append(partial(driver.call, "cuModuleUnload", self._module))
            self.stream = driver.handle("cuStreamCreate", _NON_BLOCKING)
            self._opened.append(partial(driver.call, "cuStreamDestroy_v2", self.stream))

    def close(self) -> None:
        """Give back the device once nothing of it is in use. The end of the process does so, too."""
        with self.lock:
            if self._context is None:
                return
            with suppress(DriverError), self.used():  # the device may be the thing that was lost
                self._give_back_all()
            self._context = None
            with suppress(DriverError):
                self.driver.call("cuDevicePrimaryCtxRelease_v2", self._number)

    def _give_back_all(self) -> None:
        for block in (block for blocks in self._spare.values() for block in blocks):
            self.free(block)
        self._spare.clear()
        if self._scratch.size:
            self.free(self._scratch)
            self._scratch = DeviceAllocation(0, 0)
        while self._opened:
            with suppress(DriverError):
                self._opened.pop()()

    @property
    def described(self) -> str:
        """One line with the device's name, its architecture and its free memory."""
        with self.used():
            free, total = self.driver.sizes("cuMemGetInfo_v2")
        return f"{self.name}, {self.architecture}, {free >> 20} of {total >> 20} MiB free"

    @property
    def architecture(self) -> str:
        """The architecture of the device's processors, as nvcc names it."""
        return "sm_{}{}".format(*self.capability)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Give the device to this thread alone, as every function below expects.

        Afterwards the thread's current context is the former one: that of another device, if another library uses one.
        """
        with self.lock:
            self.driver.call("cuCtxPushCurrent_v2", self._context)
            try:
                if self._unused:
                    self.wait()
                while self._unused:
                    self._unused.popleft()()
                yield
            finally:
                with suppress(DriverError):  # the error of an earlier launch, which a wait has already raised
                    self.driver.handle("cuCtxPopCurrent_v2")

    def later(self, give_back: Callable[[], None]) -> None:
        """Have something given back when the device is next used.

        A finalizer needs this, because it may run anywhere, even in the middle of a capture.
        """
        self._unused.append(give_back)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def take(self, size: int) -> DeviceAllocation:
        """Return at least `size` bytes of uninitialised memory.

        Raises MemoryLimitError if the device has too little.
        """
        size = max(size, 1) if self.is_exact else max(_ROUND, 1 << (size - 1).bit_length())
        spare = self._spare.get(size)
        if spare:
            return spare.pop()
        return self.allocate(size)

    def give(self, block: DeviceAllocation) -> None:
        """Give memory back, so that `take` can return it again."""
        if self.is_exact:
            self.free(block)
        else:
            self._spare.setdefault(block.size, []).append(block)

    def allocate(self, size: int) -> DeviceAllocation:
        """Return exactly `size` bytes of uninitialised memory, to be given back by `free`. Raises MemoryLimitError."""
        try:
            block = DeviceAllocation(self.driver.address("cuMemAlloc_v2", max(size, 1)), max(size, 1))
        except MemoryError:
            free, total = self.driver.sizes("cuMemGetInfo_v2")
            raise MemoryLimitError(f"{size} bytes of device memory; {self.name} has {free} of {total} free") from None
        self.held += block.size
        return block

    def pin(self, host: int, size: int) -> int | None:
        """Return the address at which the device reads host memory in place, until `unpin`.

        Return None if the device cannot read it in place, or if that brings no gain.
        """
        if not self.is_integrated:
            return None
        try:
            self.driver.call("cuMemHostRegister_v2", host, size, MAPPED)
        except (DriverError, MemoryError):  # pages of a file, or memory that overlaps pinned memory
            return None
        try:
            return self.driver.address("cuMemHostGetDevicePointer_v2", host, 0)
        except DriverError:
            self.unpin(host)
            raise

    def unpin(self, host: int) -> None:
        self.driver.call("cuMemHostUnregister", host)

    def free(self, block: DeviceAllocation) -> None:
        self.driver.call("cuMemFree_v2", block.address)
        self.held -= block.size

    def upload(self, address: int, host: int, size: int) -> None:
        """Copy from host memory, after all that was launched. The memory has been read when this returns.

        It waits, because for pageable memory the driver says only that the call might wait.
        """
        if size:
            self.driver.call("cuMemcpyHtoDAsync_v2", address, host, size, self.stream)
            self.wait()

    def download(self, host: int, address: int, size: int) -> None:
        """Copy to host memory, after all that was launched. The bytes are there when this returns."""
        if size:
            self.driver.call("cuMemcpyDtoHAsync_v2", host, address, size, self.stream)
            self.wait()

    def scratch(self, size: int) -> int:
        """Return the address of scratch memory, which the launches of the next call may overwrite.

        It is one block for all calls, and it grows to the largest size that was asked for. When it has grown, launches
        that were made for the former block are stale (see `generation`). Raises MemoryLimitError.
        """
        if size > self._scratch.size:
            self.wait()
            if self._scratch.size:
                self.free(self._scratch)
            self._scratch = DeviceAllocation(0, 0)
            self.generation += 1  # even if there is no room for another
            self._scratch = self.allocate(-(-size // _ROUND) * _ROUND)
        return self._scratch.address

    @property
    def scratch_bytes(self) -> int:
        return self._scratch.size

    # ---- work --------------------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait until all that was launched has run. Raises DriverError if something failed."""
        self.driver.call("cuStreamSynchronize", self.stream)

    def launch(self, launch: Launch) -> None:
        arguments = ctypes.create_string_buffer(launch.arguments, len(launch.arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        function, size = self._function(launch.kernel)
        if size not in (None, len(launch.arguments)):
            raise BackendError(f"{launch.kernel} takes {size} bytes of arguments; got {len(launch.arguments)}")
        self.driver.call("cuLaunchKernel", function, *launch.grid, launch.threads, 1, 1, 0, self.stream, pointers, None)

    def has(self, kernel: str) -> bool:
        """Return whether the loaded kernels include `kernel`."""
        with self.used():
            try:
                self._function(kernel)
            except DriverError as error:
                if error.status != NOT_FOUND:
                    raise
                return False
            return True

    def capture(self, launches: Sequence[Launch]) -> ctypes.c_void_p:
        """Return a graph that makes these launches in order (cuGraphLaunch).

        The caller gives it to `drop` afterwards.
        """
        for launch in launches:
            self._function(launch.kernel)
        self.driver.call("cuStreamBeginCapture_v2", self.stream, _RELAXED)
        graph = ctypes.c_void_p()
        try:
            try:
                for launch in launches:
                    self.launch(launch)
            finally:
                self.driver.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
            return self.driver.handle("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            if graph:
                self.driver.call("cuGraphDestroy", graph)

    def replay(self, graph: ctypes.c_void_p, times: int = 1) -> None:
        for _ in range(times):
            self.driver.call("cuGraphLaunch", graph, self.stream)

    def drop(self, graph: ctypes.c_void_p) -> None:
        self.driver.call("cuGraphExecDestroy", graph)

    @contextmanager
    def timed(self) -> Iterator[Callable[[], float]]:
        """Measure the seconds that the device takes for the launches inside the block.

        The yielded function returns them afterwards.
        """
        with self.used():
            events = [self.driver.handle("cuEventCreate", 0) for _ in range(2)]
            self.driver.call("cuEventRecord", events[0], self.stream)
        seconds = ctypes.c_float()
        try:
            yield lambda: seconds.value / 1e3
            with self.used():
                self.driver.call("cuEventRecord", events[1], self.stream)
                self.driver.call("cuEventSynchronize", events[1])
                self.driver.call("cuEventElapsedTime", ctypes.byref(seconds), *events)
        finally:
            with self.used():
                for event in events:
                    self.driver.call("cuEventDestroy_v2", event)

    def _function(self, name: str) -> tuple[ctypes.c_void_p, int | None]:
        """Return a kernel, and the bytes of its arguments where they are known.

        A driver loads a kernel when it is first asked about. Drivers before CUDA 12.3 cannot do so while a stream is
        capturing.
        """
        if name not in self._functions:
            function = self.driver.handle("cuModuleGetFunction", self._module, name.encode())
            self.driver.number("cuFuncGetAttribute", _MOST_THREADS, function)
            self._functions[name] = function, self.driver.arguments_size(function)
        return self._functions[name]
