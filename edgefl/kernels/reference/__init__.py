"""Every kernel operation in plain numpy: what each one means. Readable above fast; no compiler, no numba.

One module per family. Arrays are C-contiguous, outputs are passed in and written, ids are sorted unique int32 arrays or
None for all (table.py). Arrays may be float32, or float64 throughout: that is the reference that other backends are
tested against.
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
    linear,
    loss,
    mask,
    narrow,
    norm,
    parameters,
    pool,
    recurrent,
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
    dropout,
    loss,
    update,
    growth,
    parameters,
    mask,
    narrow,
)
globals().update({name: function.call for name, function in FUNCTIONS.items()})


class ReferenceProgram(RecordedCalls):
    """A recorded list of calls to the operations of this backend."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS)


Program = ReferenceProgram  # the name by which a backend's callers know it
