"""Kernels for machines without a C++ compiler: the module of each family prepares calls, and numba compiles them.

Convolution, pooling, normalisation, ReLU, bias gradients, SGD, Adam and masks as bytes are compiled, without fast-math.
Linear layers are BLAS products through numpy. The reference backend computes all other operations: gathers and
scatters, the loss, and sums over little data. A Program checks the arguments of compiled operations once, when it
records a call.
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
