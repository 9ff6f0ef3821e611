"""The values of a tensor in an ONNX file as an array, checked against its declared shape before memory is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from edgefl.errors import GraphError

External = Callable[[str, int, int], bytes]
"""A function that returns bytes of a file beside the model, from its name, an offset in bytes and a number of bytes."""

T = TensorProto
DTYPES: dict[int, type[np.generic]] = {
    T.FLOAT: np.float32,
    T.DOUBLE: np.float64,
    T.FLOAT16: np.float16,
    T.INT64: np.int64,
    T.INT32: np.int32,
    T.INT16: np.int16,
    T.INT8: np.int8,
    T.UINT8: np.uint8,
    T.UINT64: np.uint64,
    T.UINT32: np.uint32,
    T.BOOL: np.bool_,
}
LISTED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
MOST_AXES = 8
MOST_VALUES = 1 << 28  # as many as a graph may have parameters


def tensor_value(tensor: Any, external: External) -> np.ndarray:
    """Return the values of a TensorProto.

    Raises  GraphError that names the tensor and what is wrong: its type, its shape, or the number of its values
    """
    name = f"constant {tensor.name[:200]!r}"
    dtype, shape = DTYPES.get(tensor.data_type), tuple(int(size) for size in tensor.dims)
    if dtype is None:
        kinds = T.DataType
        found = kinds.Name(tensor.data_type).lower() if tensor.data_type in kinds.values() else tensor.data_type
        raise GraphError(f"{name} is of type {found}; expected float32 or integers")
    if len(shape) > MOST_AXES or min(shape, default=0) < 0 or math.prod(shape) > MOST_VALUES:
        raise GraphError(f"{name} has the shape {shape[:MOST_AXES]}; expected at most {MOST_VALUES} values")
    size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if tensor.data_location == T.EXTERNAL:
        raw = _external_bytes(tensor, name, size_bytes, external)
        return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    found = len(tensor.raw_data) if tensor.HasField("raw_data") else None
    if found is not None and found != size_bytes:
        raise GraphError(f"{name} has {found} bytes; expected {size_bytes} for the shape {shape}")
    listed = sum(len(getattr(tensor, field)) for field in LISTED)
    if found is None and listed != math.prod(shape):
        raise GraphError(f"{name} has {listed} values; expected {math.prod(shape)} for the shape {shape}")
    try:
        return np.asarray(numpy_helper.to_array(tensor)).astype(dtype, copy=False).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise GraphError(f"{name} cannot be read ({error}); expected values of its type") from None


def _external_bytes(tensor: Any, name: str, size_bytes: int, external: External) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    offset, length = (entries.get(key, default) for key, default in (("offset", "0"), ("length", str(size_bytes))))
    if not (offset.isdecimal() and length.isdecimal() and len(offset) < 20 and int(length or 0) == size_bytes):
        shown = f"offset {offset[:20]!r} and length {length[:20]!r}"
        raise GraphError(f"{name} lies outside the file with {shown}; expected {size_bytes} bytes")
    try:
        return external(entries.get("location", ""), int(offset), size_bytes)
    except GraphError as error:
        raise GraphError(f"{name}: {error}") from None
