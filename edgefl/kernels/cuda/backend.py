"""The CUDA backend on the device of this machine. Chosen by name, never by default.

Importing this raises ImportError where there is no device, no driver or no compiled kernels. Masks and values as bytes,
and the structures of masked weights, are the host's: those calls run on the best other backend.
"""

from __future__ import annotations

import functools
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
    sparse_convolution,
    sparse_linear,
    update,
)
from .device import Device
from .memory import Memory
from .program import Body, Operation, operations
from .program import Program as RecordedCalls

DEVICE = Device()
MEMORY = Memory(DEVICE)
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
    dropout,
    attention,
    loss,
    update,
    growth,
    parameters,
)
BODIES: dict[str, Body] = {name: body for family in FAMILIES for name, body in vars(family).items() if name in TABLE}
KNOWN: dict[str, Operation] = operations(BODIES)
KNOWN |= {name: KNOWN[name]._replace(check=host.StructureCheck(TABLE[name])) for name in host.FOLLOWED}


class Program(RecordedCalls):
    """A recorded list of calls to the operations of this backend."""

    def __init__(self) -> None:
        super().__init__(DEVICE, MEMORY, KNOWN)


def _call(name: str) -> Any:
    @functools.wraps(getattr(reference, name))
    def call(*args: Any, **named: Any) -> None:
        program = Program()
        program.append(name, *args, **named)
        program.run()

    return call


globals().update({name: _call(name) for name in TABLE})  # one without a kernel refuses
globals().update({name: host.operation(name, MEMORY) for name in host.OPERATIONS})


def isa() -> str:
    """What kernels/sparsity.py knows its masked layers by."""
    return "cuda"


def scratch_bytes() -> int:
    """Bytes of device memory that calls of this process share for partial results."""
    return DEVICE.scratch_bytes


def scratch_needed(op: str, *args: Any) -> int:
    """Bytes of it that such a call would need. Nothing runs."""
    program = Program()
    program.append(op, *args)
    return program.scratch_needed()


def packs(op: str) -> bool:
    """Whether scratch_needed is to be asked of an operation."""
    return op in KNOWN
