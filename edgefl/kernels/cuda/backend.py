"""The CUDA backend on the device of this machine, in fp32; tf32.py is another, of the same device and memory. Chosen by
name, never by default.

Importing this raises ImportError where there is no device, no driver or no compiled kernels. Masks and values as bytes,
and the structures of masked weights, are the host's: those calls run on the best other backend.
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
    loss,
    update,
    growth,
    parameters,
)
BODIES: dict[str, Body] = {name: body for family in FAMILIES for name, body in vars(family).items() if name in TABLE}
KNOWN: dict[str, CudaOperation] = operations(BODIES)
KNOWN |= {name: KNOWN[name]._replace(check=host.StructureCheck(TABLE[name])) for name in host.FOLLOWED}


def isa() -> str:
    """What kernels/sparse_choice.py knows its masked layers by. tf32.py has none: there they are dense, on tensor
    cores.
    """
    return "cuda"


def scratch_bytes() -> int:
    """Bytes of device memory that calls of this process share for partial results."""
    return DEVICE.scratch_bytes


def backend_of(known: Mapping[str, CudaOperation]) -> dict[str, Any]:
    """What the module of a backend with these operations has, by name: the calls of the table; Program, a recorded list
    of them; and what they need of scratch_bytes, nothing of which runs.
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
        """Bytes of scratch memory that such a call would need."""
        program = CudaBackendProgram()
        program.append(op, *args)
        return program.scratch_needed()

    def packs(op: str) -> bool:
        """Whether scratch_needed is to be asked of an operation: those that read a data set have no use for any."""
        return op in known and not hasattr(batch, op)

    calls = {name: call_of(name) for name in TABLE}  # one without a kernel refuses
    on_host = {name: host.operation(name, MEMORY) for name in host.OPERATIONS}
    return {**calls, **on_host, "Program": CudaBackendProgram, "scratch_needed": scratch_needed, "packs": packs}


globals().update(backend_of(KNOWN))
