"""Convolutions, Gemm, MatMul and Gather from a table: ONNX operators that multiply with a constant weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Linear,
    Operation,
    Shape,
    ZeroPad2d,
)
from edgefl.models.onnx.axis_atoms import BATCH, Axis, OnnxResult, laid, standard
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, named, parameter


def channels_first(call: OnnxCall, value: OnnxResult, as_planes: bool = False) -> str:
    """Return the name of a result [channels, ...] for an ONNX tensor [batch, channels, ...].

    as_planes  whether a sequence becomes planes of one row
    """
    if value.others != list(range(1, value.rank)) or not 2 <= value.rank <= 4:
        raise GraphError(f"input {value}; expected [batch, channels, ...] with at most two further axes")
    extents: list[Sequence[int]] = [value.axes[at] for at in range(1, value.rank)]
    if as_planes and value.rank == 3:
        extents.insert(1, ())
    return call.assembly.placed(value, extents)


def paddings(call: OnnxCall, size: Sequence[int], reach: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """Return the cells before and after each axis of planes, from `pads` or `auto_pad`."""
    how = call.attribute("auto_pad", "NOTSET") or "NOTSET"
    call.expect("auto_pad", how, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if how.startswith("SAME"):
        total = [max(0, (-(-n // s) - 1) * s + r - n) for n, r, s in zip(size, reach, stride, strict=True)]
        small = [each // 2 for each in total]
        pairs = [(less, each - less) for less, each in zip(small, total, strict=True)]
        return pairs if how == "SAME_UPPER" else [pair[::-1] for pair in pairs]
    pads = (call.integers("pads") if how == "NOTSET" else None) or [0] * (2 * len(size))
    if len(pads) != 2 * len(size) or min(pads) < 0:
        raise GraphError(f"pads={pads}; expected {2 * len(size)} integers that are not negative")
    return list(zip(pads[: len(size)], pads[len(size) :], strict=True))


def zeros_around(call: OnnxCall, name: str, pads: Sequence[tuple[int, int]]) -> str:
    """Add zeros around planes, or around planes of one row if there is one pair. Return the name of the planes."""
    (top, bottom), (left, right) = pads if len(pads) == 2 else ((0, 0), pads[0])
    return call.assembly.add(ZeroPad2d((left, right, top, bottom)), (name,))


def conv(call: OnnxCall) -> OnnxResult:
    value, weight = call.value(), call.constant(1)
    places = weight.array.ndim - 2
    if places not in (1, 2) or value.rank != places + 2:
        raise GraphError(f"{value} with a weight of shape {weight.array.shape}; expected a 1-d or 2-d convolution")
    channels, kernel = value.extents[1], weight.array.shape[2:]
    call.expect("kernel_shape", call.integers("kernel_shape") or list(kernel), list(kernel))
    stride, dilation = (call.window(name, 1, places) for name in ("strides", "dilations"))
    groups = call.attribute("group", 1)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    pads = paddings(call, value.extents[2:], reach, stride)
    is_even = all(before == after for before, after in pads)
    name = channels_first(call, value, as_planes=not is_even)
    if not is_even:
        name = zeros_around(call, name, pads)
        planes = standard(name, call.assembly.shape(name), value.batch)
        name = name if places == 2 else call.assembly.placed(planes, [planes.axes[1], planes.axes[3]])
    padding = tuple(before if is_even else 0 for before, _ in pads)
    window = (tuple(kernel), tuple(stride), padding, tuple(dilation))
    plain: tuple[Any, ...] = window if places == 2 else tuple(each[0] for each in window)
    kind: Callable[..., Operation] = Conv2d if places == 2 else Conv1d
    op = kind(channels, weight.array.shape[0], *plain, groups, call.has(2))
    return _with_weights(call, op, name, value.batch)


def _with_weights(call: OnnxCall, op: Operation, name: str, batch: int) -> OnnxResult:
    """Add an operation with the weight and the bias of a convolution."""
    constants = {"weight": call.constant(1)} | ({"bias": call.constant(2)} if call.has(2) else {})
    added = with_parameters(call, op, name, constants)
    return standard(added, call.assembly.shape(added), batch)


def with_parameters(call: OnnxCall, op: Operation, name: str, constants: dict[str, Constant]) -> str:
    """Add an operation whose parameters are constants of the file. Raises GraphError if their sizes do not fit."""
    infos = op.parameters()
    values = {part: parameter(constants[part], infos[part].shape) for part in infos}
    return call.assembly.add(op, (name,), values, {part: constants[part].origin for part in infos})


def conv_transpose(call: OnnxCall) -> OnnxResult:
    value, weight = call.value(), call.constant(1)
    places = weight.array.ndim - 2
    if places not in (1, 2) or value.rank != places + 2:
        raise GraphError(f"{value} with a weight of shape {weight.array.shape}; expected 1-d or 2-d")
    call.expect("output_shape", call.integers("output_shape"), None)
    call.expect("auto_pad", call.attribute("auto_pad", "NOTSET"), "NOTSET", "VALID")
    stride, dilation = (call.window(name, 1, places) for name in ("strides", "dilations"))
    kernel, groups = weight.array.shape[2:], call.attribute("group", 1)
    more = call.integers("output_padding") or [0] * places
    pads = paddings(call, value.extents[2:], kernel, stride)
    more = [each + before - after for each, (before, after) in zip(more, pads, strict=True)]
    if min(more) < 0:
        raise GraphError(f"pads={pads} with less before than after; expected equal pads")
    before = 2 - places
    window: tuple[Any, ...] = (
        (*(1,) * before, *kernel),
        (*(1,) * before, *stride),
        (*(0,) * before, *(first for first, _ in pads)),
        (*(0,) * before, *more),
    )
    out = weight.array.shape[1] * groups
    apart: Any = (*(1,) * before, *dilation)
    rest: tuple[Any, ...] = (*window, groups, call.has(2), apart)
    op = ConvTranspose2d(value.extents[1], out, *rest)
    found = _with_weights(call, op, channels_first(call, value, as_planes=True), value.batch)
    if places == 2:
        return found
    size = found.shape
    return laid(found.name, size, [(1, size[0]), (2, size[2])], 3, value.batch)


def gemm(call: OnnxCall) -> OnnxResult:
    value, weight = call.value(), call.constant(1)
    call.expect("transA", call.attribute("transA", 0), 0)
    if value.rank != 2 or weight.array.ndim != 2:
        raise GraphError(f"{value} with a weight of shape {weight.array.shape}; expected [batch, features]")
    turned = Constant(weight.array if call.attribute("transB", 0) else weight.array.T, weight.origin)
    constants = {"weight": scaled(call, turned, call.number("alpha", None, 1.0))}
    if call.has(2):
        bias = scaled(call, call.constant(2), call.number("beta", None, 1.0))
        out = turned.array.shape[0]
        if bias.array.shape[:-1] not in ((), (1,)) or bias.array.size not in (1, out):
            raise GraphError(f"C of shape {bias.array.shape}; expected a value for each of {out} features")
        constants["bias"] = Constant(np.broadcast_to(bias.array.reshape(-1), (out,)), bias.origin)
    return linear(call, value, 1, constants)


def scaled(call: OnnxCall, constant: Constant, factor: float) -> Constant:
    if factor == 1:
        return constant
    call.budget.spend(constant.array.size)
    return Constant(constant.array * np.float32(factor), constant.origin)


def linear(call: OnnxCall, value: OnnxResult, axis: int, constants: dict[str, Constant]) -> OnnxResult:
    """Add a Linear layer that multiplies along one axis, at each position of all other axes."""
    outputs, inputs = constants["weight"].array.shape
    if value.extents[axis] != inputs or BATCH in value.axes[axis]:
        raise GraphError(f"{value} with a weight for {inputs} features; expected equal numbers of features")
    name, rest = features_first(call, value, value.axes[axis])
    added = with_parameters(call, Linear(inputs, outputs, "bias" in constants), name, constants)
    return with_features(value, axis, added, call.assembly.shape(added), rest)


def features_first(call: OnnxCall, value: OnnxResult, own: Axis) -> tuple[str, list[int]]:
    """Return the name of a result [features, positions], and the atoms of its positions in order.

    own  atoms of the features. All other atoms are positions, in the order of memory
    """
    rest = [atom for atom in range(len(value.atoms)) if atom not in own]
    places: list[Axis] = [(atom,) for atom in rest] if len(rest) <= 2 else [tuple(rest)]
    return call.assembly.placed(value, [own, *places]), rest


def with_features(value: OnnxResult, axis: int, name: str, shape: Shape, rest: list[int]) -> OnnxResult:
    """Return a result [features, positions] under a value's axes, of which one holds the features.

    rest  atoms of the value that are the positions, in order
    """
    own = [shape[0]] if shape[0] > 1 else []
    renamed = {atom: at for at, atom in enumerate(rest, start=len(own))} | {BATCH: BATCH}
    axes = [
        tuple(range(len(own))) if at == axis else tuple(renamed[atom] for atom in each)
        for at, each in enumerate(value.axes)
    ]
    atoms = (*own, *(value.atoms[atom] for atom in rest))
    return OnnxResult(name, shape, atoms, tuple(axes), value.batch)


def matmul(call: OnnxCall) -> OnnxResult:
    """Read a product with a constant matrix on the right, or on the left, where it multiplies along axis -2."""
    if isinstance(call.inputs[0], Constant):
        value, axis = call.value(1), -2
        weight = call.inputs[0]
    else:
        value, axis, weight = call.value(), -1, call.constant(1)
        weight = Constant(weight.array.swapaxes(-1, -2) if weight.array.ndim > 1 else weight.array, weight.origin)
    matrix = weight.array
    if matrix.ndim < 2 or math.prod(matrix.shape[:-2]) != 1:
        raise GraphError(f"{value} with {named(weight)} of shape {matrix.shape}; expected a matrix")
    weight = Constant(matrix.reshape(matrix.shape[-2:]), weight.origin)
    axis = value.axis(axis)
    if (pooled := _adaptive_pool(call, value, axis, weight)) is not None:
        return pooled
    return linear(call, value, axis, {"weight": weight})


def _adaptive_pool(call: OnnxCall, value: OnnxResult, axis: int, weight: Constant) -> OnnxResult | None:
    """Return an adaptive average pool if the matrix holds the shares of its windows, as edgefl writes it."""
    parts, size = weight.array.shape
    if (BATCH,) not in value.axes:
        return None
    is_of_places = value.others == list(range(1, value.rank)) and value.rank in (3, 4) and axis > 1
    if not is_of_places or size != value.extents[axis]:
        return None
    if not all(np.array_equal(row, share_of(part, size, parts)) for part, row in enumerate(weight.array)):
        return None
    if parts == size:
        return value
    name = channels_first(call, value)
    sizes = list(call.assembly.shape(name)[1:])
    sizes[axis - 2] = parts
    op = AdaptiveAvgPool1d(sizes[0]) if len(sizes) == 1 else AdaptiveAvgPool2d((sizes[0], sizes[1]))
    added = call.assembly.add(op, (name,))
    return standard(added, call.assembly.shape(added), value.batch)


def share_of(part: int, size: int, parts: int) -> np.ndarray:
    """Return 1 / n at the n cells of one window of an adaptive average pool, and 0 at the other cells."""
    weights = np.zeros(size, np.float32)
    first, last = part * size // parts, -(-(part + 1) * size // parts)
    weights[first:last] = 1 / (last - first)
    return weights


def embedding(call: OnnxCall) -> OnnxResult:
    """Read the rows of a table at the ids of the input."""
    table, ids = call.constant(0), call.value(1)
    call.expect("axis", call.attribute("axis", 0), 0)
    if ids.name != INPUT or table.array.ndim != 2 or len(ids.shape) != 1 or ids.rank != 2:
        raise GraphError(f"rows of {table.array.shape} at {ids}; expected a table at the ids of the model's input")
    added = with_parameters(call, Embedding(*table.array.shape), INPUT, {"weight": table})
    features, length = call.assembly.shape(added)
    return laid(added, (features, length), [(2, features), (1, length)], 3, ids.batch)
