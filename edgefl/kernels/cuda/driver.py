"""The functions of NVIDIA's driver that edgefl calls, under the driver's names.

The library is opened when it is asked for, and never linked. The CUDA Driver API reference describes the functions.
EDGEFL_LIBCUDA names another library, as the tests do with tests/kernels/cuda/standin.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

from edgefl.errors import BackendError

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY, NOT_FOUND = 2, 500  # results of a call
LEAST_VERSION = 12000  # least version of the driver: CUDA 12

_FUNCTIONS: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemHostGetDevicePointer_v2": (POINTER(c_uint64), c_void_p, c_uint),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p),
}

_NEWER = {"cuFuncGetParamInfo": (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t))}  # CUDA 12.4


class DriverError(BackendError):
    """A call of the driver that failed. `status` is what the call returned."""

    def __init__(self, name: str, status: int, meaning: str) -> None:
        super().__init__(f"{name} failed with {meaning} ({status}); expected CUDA_SUCCESS (0)")
        self.status = status


class Driver:
    """The opened library. Raises ImportError where it cannot be opened, or where it lacks a function."""

    def __init__(self) -> None:
        path = os.environ.get("EDGEFL_LIBCUDA") or LIBRARY
        try:
            library = ctypes.CDLL(path)
            for name, arguments in _FUNCTIONS.items():
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, c_int
        except (OSError, AttributeError) as error:
            raise ImportError(f"no CUDA driver: {error}") from None
        for name, arguments in _NEWER.items():
            if hasattr(library, name):
                getattr(library, name).argtypes = arguments
        self.library = library

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises MemoryError if the device has too little memory, and DriverError if it fails
        otherwise.
        """
        status = getattr(self.library, name)(*arguments)
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: the device has not so much memory")
        if status:
            raise DriverError(name, status, self._name_of(status))

    def number(self, name: str, *arguments: object) -> int:
        """Return the int that a function writes to its first argument."""
        found = c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def handle(self, name: str, *arguments: object) -> c_void_p:
        """Return the pointer that a function writes to its first argument."""
        found = c_void_p()
        self.call(name, ctypes.byref(found), *arguments)
        return found

    def address(self, name: str, *arguments: object) -> int:
        """Return the address in device memory that a function writes to its first argument."""
        found = c_uint64()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def sizes(self, name: str) -> tuple[int, int]:
        """Return the two sizes that a function writes to its arguments."""
        first, second = c_size_t(), c_size_t()
        self.call(name, ctypes.byref(first), ctypes.byref(second))
        return first.value, second.value

    def arguments_size(self, function: c_void_p) -> int | None:
        """Return the bytes of a kernel's struct of arguments, or None where the driver does not tell."""
        offset, size = c_size_t(), c_size_t()
        if not hasattr(self.library, "cuFuncGetParamInfo"):
            return None
        self.call("cuFuncGetParamInfo", function, 0, ctypes.byref(offset), ctypes.byref(size))
        return size.value

    def _name_of(self, status: int) -> str:
        text = c_char_p()
        if self.library.cuGetErrorName(status, ctypes.byref(text)) or text.value is None:
            return "an unknown error"
        return text.value.decode()
