"""Every kernel operation in plain numpy, as the definition of what the operation means. It needs no compiler, no numba.

The code is readable rather than fast. Each family has one module. Arrays are C-contiguous, outputs are passed in and
written, and ids are sorted unique int32 arrays or None for all ids (table.py). The arrays of a call may be float32 or
float64. The other backends are tested against this reference in float64.
"""

from ..checked_functions import functions
from ..program import PythonProgram as RecordedCalls
from . import (
    activation,
    arrange,
    attention,
    batch,
    convolution,
    dropout,
    elementwise,
    growth,
    int8,
    linear,
    loss,
    mask,
    narrow,
    norm,
    parameters,
    pool,
    recurrent,
    rms_norm,
    rotary,
    sdpa,
    sparse_convolution,
    sparse_linear,
    update,
)

FUNCTIONS = functions(
    batch,
    convolution,
    sparse_convolution,
    linear,
    sparse_linear,
    norm,
    pool,
    elementwise,
    activation,
    arrange,
    recurrent,
    attention,
    sdpa,
    rms_norm,
    rotary,
    dropout,
    loss,
    update,
    growth,
    parameters,
    mask,
    int8,
    narrow,
)
globals().update({name: function.call for name, function in FUNCTIONS.items()})


class ReferenceProgram(RecordedCalls):
    """A recorded list of calls to the operations of this backend."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS)


Program = ReferenceProgram  # the name by which a backend's callers know it
