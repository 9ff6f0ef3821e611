"""Reading of an array in numpy's npy format without trust: nothing is unpickled, and memory grows only with the bytes
that are there.
"""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import expect_end, read_exactly
from edgefl.experiment.data.dataset import Array


def read_array(stream: BinaryIO, what: str) -> Array:
    """Read one array, after which the stream must end. Raises DataError naming `what` and what was expected."""
    shape, fortran, dtype = read_header(stream, what)
    data = read_exactly(stream, math.prod(shape) * dtype.itemsize, what)
    expect_end(stream, what)
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")


def read_header(stream: BinaryIO, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, whether the array lies in Fortran's order, and the type. Raises DataError like read_array."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise DataError(f"{what}: npy version {version}; expected (1, 0) or (2, 0)")
        shape, fortran, dtype = readers[version](stream)
    except ValueError as error:
        raise DataError(f"{what}: {error}; expected an npy file") from error
    if dtype.hasobject:
        raise DataError(f"{what}: pickled objects of type {dtype}; expected numbers or text")
    if any(not 0 <= extent < 2**40 for extent in shape) or dtype.itemsize == 0:
        raise DataError(f"{what}: shape {shape} of {dtype}; expected extents in [0, 2^40) and a type with a size")
    return shape, fortran, dtype
