"""The CUDA backend on the device of this machine, in float32. It is chosen by name, never by default.

tf32.py is another backend on the same device and memory. Importing this module raises ImportError where there is no
device, no driver or no compiled kernels. Operations on masks and values as bytes, and on the structures of masked
weights, run on the best other backend, on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .. import reference
from ..table import TABLE
from . import (
    activation,
    arrange,
    attention,
    batch,
    convolution,
    dropout,
    elementwise,
    growth,
    host,
    linear,
    loss,
    norm,
    norm_relu,
    parameters,
    pool,
    recurrent,
    rms_norm,
    rotary,
    row_launches,
    sdpa,
    sparse_convolution,
    sparse_linear,
    update,
)
from .device import CudaDevice
from .memory import DeviceMemory
from .program import Body, CudaOperation, operations
from .program import CudaProgram as RecordedCalls

DEVICE = CudaDevice()
MEMORY = DeviceMemory(DEVICE)
FAMILIES: tuple[ModuleType, ...] = (
    batch,
    convolution,
    sparse_convolution,
    linear,
    sparse_linear,
    norm,
    norm_relu,
    pool,
    elementwise,
    activation,
    arrange,
    recurrent,
    dropout,
    attention,
    sdpa,
    rms_norm,
    rotary,
    loss,
    update,
    growth,
    parameters,
)
BODIES: dict[str, Body] = {name: body for family in FAMILIES for name, body in vars(family).items() if name in TABLE}
BODIES |= row_launches.bodies()
KNOWN: dict[str, CudaOperation] = operations(BODIES)
KNOWN |= {name: KNOWN[name]._replace(check=host.StructureCheck(TABLE[name])) for name in host.FOLLOWED}


def isa() -> str:
    """Return the name by which kernels/sparse_choice.py knows the masked layers of this backend.

    tf32.py has no such function, because its masked layers are dense, on tensor cores.
    """
    return "cuda"


def scratch_bytes() -> int:
    """Return the bytes of device memory that calls of this process share for partial results."""
    return DEVICE.scratch_bytes


def backend_of(known: Mapping[str, CudaOperation]) -> dict[str, Any]:
    """Return the contents of the module of a backend with these operations, by name.

    They are the calls of the table, the class Program of recorded calls, and scratch_needed and packs, which tell the
    scratch memory of a call without running it.
    """

    class CudaBackendProgram(RecordedCalls):
        """A recorded list of calls to the operations of this backend."""

        def __init__(self) -> None:
            super().__init__(DEVICE, MEMORY, known)

    def call_of(name: str) -> Any:
        @functools.wraps(getattr(reference, name))
        def call(*args: Any, **named: Any) -> None:
            program = CudaBackendProgram()
            program.append(name, *args, **named)
            program.run()

        return call

    def scratch_needed(op: str, *args: Any) -> int:
        """Return the bytes of scratch memory that such a call would need."""
        program = CudaBackendProgram()
        program.append(op, *args)
        return program.scratch_needed()

    def packs(op: str) -> bool:
        """Return whether scratch_needed may be asked about an operation. Operations that read a data set need no
        scratch.
        """
        return op in known and not hasattr(batch, op)

    calls = {name: call_of(name) for name in TABLE}  # one without a kernel refuses
    on_host = {name: host.operation(name, MEMORY) for name in host.OPERATIONS}
    return {**calls, **on_host, "Program": CudaBackendProgram, "scratch_needed": scratch_needed, "packs": packs}


globals().update(backend_of(KNOWN))
