"""The values of ONNX operators whose inputs are all constants, such as the computations of shapes that exporters write.

The computations of a file may not make more values than a bound (ComputationBudget). Values that are repeated along an
axis are views, so an initial state of zeros for a batch of any size takes no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.onnx.onnx_call import MOST_LISTED, Constant, OnnxCall
from edgefl.models.onnx.tensor_values import DTYPES

KEEPING = ("Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout")
"""Operators after which a constant is still the constant of the file, in another shape."""


def folded(call: OnnxCall) -> Constant | tuple[Constant, ...]:
    """Return what a node makes of constants. Raises GraphError for an operator that is not folded, or is too large."""
    operator = call.node.operator
    if operator not in FOLDS:
        raise GraphError("on constants alone; edgefl does not compute it")
    arrays = [None if each is None else each.array for each in call.inputs]  # type: ignore[union-attr]
    try:
        with np.errstate(all="ignore"):
            found = FOLDS[operator](call, *arrays)
    except GraphError:
        raise
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError, ZeroDivisionError, MemoryError) as error:
        shapes = [each.shape for each in arrays if each is not None]
        raise GraphError(f"constants of shapes {shapes} do not fit ({error}); expected constants that fit") from None
    owners = {each.lineage for each in call.inputs if isinstance(each, Constant) and each.array.dtype.kind == "f"}
    lineage = owners.pop() if len(owners) == 1 else ""
    if isinstance(found, list):
        return tuple(Constant(each, lineage=lineage) for each in found)
    origin = call.inputs[0].origin if operator in KEEPING and isinstance(call.inputs[0], Constant) else ""
    return Constant(np.asarray(found), origin, lineage)


def _elementwise(function: Callable[..., Any], call: OnnxCall, *arrays: np.ndarray) -> Any:
    call.budget.spend(math.prod(np.broadcast_shapes(*(array.shape for array in arrays))))
    return function(*arrays)


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, which ONNX rounds towards zero for integers."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)) if a.dtype.kind == "i" else a / b


def _node_constant(call: OnnxCall) -> np.ndarray:
    found = call.node.attributes
    if "value" in found:
        return np.asarray(found["value"])
    for name, dtype in (
        ("value_int", np.int64),
        ("value_ints", np.int64),
        ("value_float", np.float32),
        ("value_floats", np.float32),
    ):
        if name in found:
            return np.asarray(found[name], dtype)
    raise GraphError(f"attributes {sorted(found)!r:.80}; expected a tensor or numbers")


def _cast(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    dtype = DTYPES.get(call.attribute("to", 1))
    if dtype is None:
        raise GraphError(f"to={call.attribute('to', 1)}; expected float32 or an integer")
    call.budget.spend(x.size)
    return x.astype(dtype)


def _concat(call: OnnxCall, *arrays: np.ndarray) -> np.ndarray:
    call.budget.spend(sum(array.size for array in arrays))
    return np.concatenate(arrays, call.attribute("axis", 0))


def _flattened(call: OnnxCall, x: np.ndarray) -> np.ndarray:
    call.budget.spend(x.size)
    return x.reshape(math.prod(x.shape[: call.attribute("axis", 1)]), -1)


def _reshape(call: OnnxCall, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    wanted = [x.shape[at] if size == 0 else int(size) for at, size in enumerate(call.integers("shape", 1) or [])]
    if x.size and not any(x.strides):  # one value, repeated
        known = math.prod(size for size in wanted if size != -1)
        return np.broadcast_to(x[(0,) * x.ndim], [x.size // known if size == -1 else size for size in wanted])
    if not x.flags.c_contiguous:
        call.budget.spend(x.size)
    return x.reshape(wanted)


def _filled(call: OnnxCall, shape: np.ndarray) -> np.ndarray:
    value = np.asarray(call.node.attributes.get("value", np.zeros(1, np.float32))).reshape(())
    return np.broadcast_to(value, _sizes(shape))


def _expanded(call: OnnxCall, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, _sizes(shape)))


def _sizes(shape: np.ndarray) -> tuple[int, ...]:
    if shape.size > MOST_LISTED:
        raise GraphError(f"a shape of {shape.size} extents; the limit is {MOST_LISTED}")
    return tuple(shape.tolist())


def _gather(call: OnnxCall, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    axis = call.attribute("axis", 0)
    if ids.ndim == 0:
        index = (*(slice(None),) * (axis % max(x.ndim, 1)), int(ids))
        return x[index]
    call.budget.spend(x.size // max(x.shape[axis], 1) * ids.size)
    return np.take(x, ids, axis)


def _slice(call: OnnxCall, x: np.ndarray, *_: Any) -> np.ndarray:
    starts, ends = call.integers("starts", 1) or [], call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(index)]


def _squeezed(call: OnnxCall, x: np.ndarray, *_: Any) -> np.ndarray:
    axes = call.integers("axes", 1)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueezed(call: OnnxCall, x: np.ndarray, *_: Any) -> np.ndarray:
    return np.expand_dims(x, tuple(call.integers("axes", 1) or []))


def _range(call: OnnxCall, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    call.budget.spend(math.ceil((limit.item() - start.item()) / delta.item()))
    numbers: tuple[Any, ...] = (start.item(), limit.item(), delta.item())
    return np.arange(*numbers, dtype=start.dtype)


def _tiled(call: OnnxCall, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    call.budget.spend(x.size * math.prod(_sizes(repeats)))
    return np.tile(x, _sizes(repeats))


def _reduced(function: Callable[..., Any], call: OnnxCall, x: np.ndarray, *_: Any) -> np.ndarray:
    call.budget.spend(x.size)
    axes = call.integers("axes", 1)
    found = function(x, axis=None if axes is None else tuple(axes), keepdims=bool(call.attribute("keepdims", 1)))
    return np.asarray(found, x.dtype)


def _split(call: OnnxCall, x: np.ndarray, *_: Any) -> list[np.ndarray]:
    axis, sizes = call.attribute("axis", 0), call.integers("split", 1)
    if sizes is None:
        return list(np.array_split(x, len(call.node.outputs), axis))
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


def _product(call: OnnxCall, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    call.budget.spend(max(1, a.size) * (b.shape[-1] if b.ndim > 1 else 1))
    return np.matmul(a, b)


def _triangle(call: OnnxCall, x: np.ndarray, k: np.ndarray | None = None) -> np.ndarray:
    call.budget.spend(x.size)
    return (np.triu if call.attribute("upper", 1) else np.tril)(x, 0 if k is None else int(k.reshape(())))


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divided, "Neg": np.negative, "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal, "Exp": np.exp, "Log": np.log, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil,
    "Sin": np.sin, "Cos": np.cos, "Tanh": np.tanh, "Sign": np.sign, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "And": np.logical_and,
    "Or": np.logical_or, "Not": np.logical_not, "Where": np.where, "IsNaN": np.isnan, "Mod": np.mod,
    "Pow": lambda a, b: np.power(a, b).astype(a.dtype),
    "Max": lambda *each: np.maximum.reduce(np.broadcast_arrays(*each)),
    "Min": lambda *each: np.minimum.reduce(np.broadcast_arrays(*each)),
}  # fmt: skip

FOLDS: dict[str, Callable[..., Any]] = {
    **{name: partial(_elementwise, function) for name, function in ELEMENTWISE.items()},
    **{
        name: partial(_reduced, function)
        for name, function in (
            ("ReduceProd", np.prod),
            ("ReduceSum", np.sum),
            ("ReduceMean", np.mean),
            ("ReduceMax", np.max),
            ("ReduceMin", np.min),
        )
    },
    "Constant": _node_constant,
    "Identity": lambda call, x: x,
    "Dropout": lambda call, x, *_: x,
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Flatten": _flattened,
    "Gather": _gather,
    "MatMul": _product,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": lambda call, x: np.asarray(x.shape[call.attribute("start", 0) : call.attribute("end", x.ndim)], np.int64),
    "Size": lambda call, x: np.asarray(x.size, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeezed,
    "Tile": _tiled,
    "Transpose": lambda call, x: x.transpose(call.attribute("perm", list(range(x.ndim))[::-1])),
    "Trilu": _triangle,
    "Unsqueeze": _unsqueezed,
}
"""The computations on constants, by the name of the operator."""
