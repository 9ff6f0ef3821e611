"""Kernels for machines without a C++ compiler: each family's module prepares calls to what numba compiles.

Compiled, without fast-math: convolution and pooling, normalisation, ReLU, bias gradients, SGD and masks as bytes.
Linear layers are BLAS products through numpy. An operation that no module here has is the reference's: gathers and
scatters, the loss, sums over little data. A Program checks the arguments of what is here once, when it records.
"""

from .. import reference
from ..checked_functions import functions
from ..program import PythonProgram as RecordedCalls
from . import convolution, elementwise, linear, mask, norm, norm_relu, pool, update

OWN = functions(convolution, linear, norm, norm_relu, pool, elementwise, update, mask, checks_once=True)
FUNCTIONS = reference.FUNCTIONS | OWN
globals().update({name: function.call for name, function in FUNCTIONS.items()})


class NumbaProgram(RecordedCalls):
    """A recorded list of calls to the operations of this backend."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS)


Program = NumbaProgram  # the name by which a backend's callers know it
