"""Sums, products, differences and concatenation: ONNX operators on two or more values, with their broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    Add,
    AddParameter,
    Concat,
    Conv1d,
    Conv2d,
    Linear,
    Mul,
    MulParameter,
    Shape,
    Upsample,
    WithParameter,
)
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, laid, regrouped, with_axes
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, long_axes, parameter, widened
from edgefl.models.onnx.operators_of_norms import with_affine


def add(call: OnnxCall) -> OnnxResult:
    constant, value = _sides(call)
    return _added(call, call.value(0), call.value(1)) if constant is None else _with_constant(call, value, constant)


def sub(call: OnnxCall) -> OnnxResult:
    constant, value = _sides(call)
    if constant is None:
        return _added(call, call.value(0), _negative(call, call.value(1)))
    if isinstance(call.inputs[0], Constant):
        return _with_constant(call, _negative(call, value), constant)
    call.budget.spend(constant.array.size)
    return _with_constant(call, value, Constant(-constant.array, constant.origin))


def mul(call: OnnxCall) -> OnnxResult:
    constant, value = _sides(call)
    if constant is not None:
        return _with_constant(call, value, constant, is_product=True)
    return _multiplied(call, call.value(0), call.value(1))


def div(call: OnnxCall) -> OnnxResult:
    value, constant = call.value(0), call.constant(1)
    call.budget.spend(constant.array.size)
    with np.errstate(all="ignore"):
        inverse = (1 / constant.array).astype(constant.array.dtype)
    return _with_constant(call, value, Constant(inverse, constant.origin), is_product=True)


def neg(call: OnnxCall) -> OnnxResult:
    return _negative(call, call.value())


def _negative(call: OnnxCall, value: OnnxResult) -> OnnxResult:
    return _with_constant(call, value, Constant(np.float32(-1).reshape(())), is_product=True)


def _sides(call: OnnxCall) -> tuple[Constant | None, OnnxResult]:
    """Return the constant among the two inputs, or None, and the value."""
    for at in (0, 1):
        found = call.inputs[at] if len(call.inputs) > at else None
        if isinstance(found, Constant):
            return call.constant(at), call.value(1 - at)
    return None, call.value(0)


def _with_constant(call: OnnxCall, value: OnnxResult, constant: Constant, is_product: bool = False) -> OnnxResult:
    """Add a sum or a product with a value per channel or for each value of a sample."""
    array = constant.array
    if array.size == 1 and float(array.reshape(())) == (1 if is_product else 0):
        return value
    if array.ndim > value.rank:
        value = with_axes(value, range(array.ndim - value.rank))
    if with_affine(call, value, constant, is_product) or (not is_product and _with_bias(call, value, constant)):
        return value
    wide = widened(array, value.rank)
    long = long_axes(wide)
    if any(wide.shape[at] != value.extents[at] or BATCH in value.axes[at] for at in long):
        raise GraphError(f"a constant of shape {array.shape} with {value}; expected extents of the value, or 1")
    kind = MulParameter if is_product else AddParameter
    if len(long) <= 1:
        return _per_channel(call, value, constant, kind, long, wide)
    return _per_value(call, value, constant, kind, long, wide)


def _per_channel(
    call: OnnxCall, value: OnnxResult, constant: Constant, kind: type[WithParameter], long: list[int], wide: np.ndarray
) -> OnnxResult:
    value = with_first(call, value, long) if long else value
    count = value.shape[0]
    held = parameter(Constant(np.broadcast_to(wide.reshape(-1), (count,)), constant.origin))
    shape = constant.array.shape[_ones(constant.array.shape) :] if long else (count,)
    op = kind(tuple(shape), ones=min(3, _ones(constant.array.shape)) if long else 0)
    return _added_parameter(call, value, op, constant, held)


def _ones(shape: Shape) -> int:
    return next((at for at, size in enumerate(shape) if size > 1), max(len(shape) - 1, 0))


def _per_value(
    call: OnnxCall, value: OnnxResult, constant: Constant, kind: type[WithParameter], long: list[int], wide: np.ndarray
) -> OnnxResult:
    """Combine a value with a constant that has as many values as a sample, in the order of either."""
    order = [atom for at in long for atom in value.axes[at]]
    if len(order) != len(value.atoms) or len(long) > 3:
        raise GraphError(
            f"a constant of shape {constant.array.shape} with {value}; expected a value for each channel, or for all"
        )
    sizes = tuple(value.extents[at] for at in long)
    last = value.axes[long[-1]]
    is_last = [*last, *order[: -len(last)]] == list(range(len(order))) and value.shape[0] == sizes[-1]
    if not is_last:
        name = call.assembly.placed(value, [value.axes[at] for at in long])
        at = value.axes.index((BATCH,))
        value = laid(name, call.assembly.shape(name), list(zip(long, sizes, strict=True)), value.rank, value.batch, at)
    op = kind(sizes, is_last, min(3, _ones(constant.array.shape)))
    return _added_parameter(call, value, op, constant, wide.reshape(sizes))


def _added_parameter(
    call: OnnxCall, value: OnnxResult, op: WithParameter, constant: Constant, held: np.ndarray
) -> OnnxResult:
    values = {"": parameter(Constant(held, constant.origin), op.shape)}
    name = call.assembly.add(op, (value.name,), values, {"": constant.origin}, not constant.is_trained)
    return replace(value, name=name)


def _with_bias(call: OnnxCall, value: OnnxResult, constant: Constant) -> bool:
    """Take a sum with a value per channel as the bias of the product before it. Return whether the sum was taken.

    The product must be without a bias, and nobody else may read the result of the product.
    """
    draft = call.assembly.drafts.get(value.name)
    if draft is None or not isinstance(draft.op, Linear | Conv1d | Conv2d) or draft.op.bias:
        return False
    channels = draft.shape[0]
    wide = widened(constant.array, value.rank)
    long = long_axes(wide)
    if len(long) != 1 or value.axes[long[0]] != (0,) or value.atoms[0] != channels or wide.size != channels:
        return False
    if not constant.is_trained or not call.is_sole_use(value.name):
        return False
    draft.op = replace(draft.op, bias=True)
    draft.values["bias"], draft.origins["bias"] = parameter(constant, (channels,)), constant.origin
    return True


def with_first(call: OnnxCall, value: OnnxResult, first: Sequence[int]) -> OnnxResult:
    """Return the value with the given axes as channels: moved if they are not, in the present order of the others."""
    own = tuple(atom for at in first for atom in value.axes[at])
    size = math.prod(value.size(atom) for atom in own)
    if own == tuple(range(len(own))) and value.shape[0] == size:
        return value
    rest = [value.axes[at] for at in value.others if at not in first and value.axes[at]]
    flat = sorted(atom for axis in rest for atom in axis)
    if own == tuple(range(len(own))):
        places: list[tuple[int, ...]] = [tuple(flat)]
        order = [*own, *flat]
    else:
        places = rest if len(rest) in (1, 2) else [tuple(atom for axis in rest for atom in axis)]
        order = [*own, *(atom for axis in places for atom in axis)]
    name = call.assembly.placed(value, [own, *places] if flat else [own])
    renamed = {atom: at for at, atom in enumerate(order)} | {BATCH: BATCH}
    axes = tuple(tuple(renamed[atom] for atom in axis) for axis in value.axes)
    atoms = tuple(value.atoms[atom] for atom in order)
    return OnnxResult(name, call.assembly.shape(name), atoms, axes, value.batch)


def _aligned(call: OnnxCall, a: OnnxResult, b: OnnxResult) -> tuple[OnnxResult, OnnxResult]:
    """Return two values with equally many axes, and whose equal axes are made of equal atoms."""
    rank = max(a.rank, b.rank)
    a, b = (with_axes(each, range(rank - each.rank)) if each.rank < rank else each for each in (a, b))
    for at, (one, other) in enumerate(zip(a.extents, b.extents, strict=True)):
        is_batch = [BATCH in each.axes[at] for each in (a, b)]
        if is_batch[0] != is_batch[1] or (one != other and 1 not in (one, other)):
            raise GraphError(f"{a} with {b}; expected equal extents, or 1, and the batch at one place")
    sizes = [[each.size(atom) for axis in each.axes for atom in axis] for each in (a, b)]
    if a.extents == b.extents and sizes[0] != sizes[1]:
        finer, coarser = (a, b) if len(sizes[0]) > len(sizes[1]) else (b, a)
        split = regrouped(coarser, [finer.size(atom) for axis in finer.axes for atom in axis])
        if split is not None and math.prod(split.extents) == math.prod(coarser.extents):
            joined = regrouped(split, coarser.extents)
            a, b = (a, joined or b) if coarser is b else (joined or a, b)
    return a, b


def _ordered_like(call: OnnxCall, value: OnnxResult, other: OnnxResult) -> OnnxResult:
    """Return a value of equal extents whose values lie in memory in the order of another value."""
    waiting, order = list(range(len(other.atoms))), list[int]()
    pairs = dict[int, int]()
    for axis, own in zip(other.axes, value.axes, strict=True):
        if [other.size(atom) for atom in axis] != [value.size(atom) for atom in own]:
            raise GraphError(f"{value} with {other}, whose axes are made of other parts; expected equal parts")
        pairs |= dict(zip(axis, own, strict=True))
    order = [pairs[atom] for atom in waiting]
    shape, at = other.shape, 0
    extents = list[tuple[int, ...]]()
    for size in shape:
        members = list[int]()
        while size > 1 and at < len(order):
            members.append(order[at])
            size //= value.atoms[order[at]]
            at += 1
        extents.append(tuple(members))
    name = call.assembly.placed(value, extents)
    return OnnxResult(name, shape, other.atoms, other.axes, other.batch)


def _added(call: OnnxCall, a: OnnxResult, b: OnnxResult) -> OnnxResult:
    a, b = _aligned(call, a, b)
    if a.extents != b.extents:
        few, many = (a, b) if math.prod(a.extents) < math.prod(b.extents) else (b, a)
        many, few = _gated(call, many, few)
        factors = (many.shape[1], many.shape[2]) if len(many.shape) == 3 else (1, many.shape[1])
        name = call.assembly.add(Upsample(factors), (few.name,))
        return replace(many, name=call.assembly.add(Add(), (many.name, name)))
    b = _ordered_like(call, b, a)
    return replace(a, name=call.assembly.add(Add(), (a.name, b.name)))


def _multiplied(call: OnnxCall, a: OnnxResult, b: OnnxResult) -> OnnxResult:
    a, b = _aligned(call, a, b)
    if a.extents == b.extents:
        b = _ordered_like(call, b, a)
        return replace(a, name=call.assembly.add(Mul(), (a.name, b.name)))
    gate, value = (a, b) if math.prod(a.extents) < math.prod(b.extents) else (b, a)
    if _is_by_position(value, gate):
        shape = (1, *value.shape[1:])
        long = [at for at in value.others if gate.axes[at]]
        name = call.assembly.placed(gate, [(), *(gate.axes[at] for at in long)])
        name = call.assembly.viewed(name, shape)
        return replace(value, name=call.assembly.add(Mul(), (value.name, name)))
    value, gate = _gated(call, value, gate)
    return replace(value, name=call.assembly.add(Mul(), (value.name, gate.name)))


def _is_by_position(value: OnnxResult, gate: OnnxResult) -> bool:
    """Return whether the gate has one value for each position of planes whose channels are first in memory."""
    gone = tuple(atom for at in value.others if not gate.axes[at] for atom in value.axes[at])
    size = math.prod(value.atoms[atom] for atom in gone)
    kept = [atom for at in value.others if gate.axes[at] for atom in value.axes[at]]
    is_first = gone == tuple(range(len(gone))) and value.shape[0] == size and len(value.shape) > 1
    return is_first and kept == list(range(len(gone), len(value.atoms)))


def _gated(call: OnnxCall, value: OnnxResult, gate: OnnxResult) -> tuple[OnnxResult, OnnxResult]:
    """Return planes and a value per channel of them, where the gate has the extent 1 along all other axes."""
    long = [at for at in value.others if gate.axes[at]]
    if any(gate.extents[at] != value.extents[at] for at in long):
        raise GraphError(f"{value} with {gate}; expected one value for each channel")
    value = with_first(call, value, long)
    channels = tuple(atom for at in long for atom in gate.axes[at])
    name = call.assembly.placed(gate, [channels, *[() for _ in value.shape[1:]]])
    return value, replace(gate, name=name, shape=call.assembly.shape(name))


def concat(call: OnnxCall) -> OnnxResult:
    values = [call.value(at) for at in range(len(call.inputs))]
    if len(values) == 1:
        return values[0]
    axis = values[0].axis(call.attribute("axis", 0))
    if any(axis not in each.others or each.rank != values[0].rank for each in values):
        raise GraphError(f"axis={axis} of {', '.join(map(str, values[:4]))}; expected an axis that is not the batch")
    others = [at for at in values[0].others if at != axis]
    if any([each.extents[at] for at in others] != [values[0].extents[at] for at in others] for each in values):
        raise GraphError(f"{', '.join(map(str, values[:4]))}; expected extents that differ only at axis {axis}")
    long = [at for at in others if values[0].axes[at]]
    names = []
    for each in values:
        places = [each.axes[at] for at in long]
        joined = places if len(places) <= 2 else [tuple(atom for place in places for atom in place)]
        names.append(call.assembly.placed(each, [each.axes[axis], *joined]))
    name = call.assembly.add(Concat(), names)
    size = call.assembly.shape(name)[0]
    memory = [(axis, size), *((at, values[0].extents[at]) for at in long)]
    at = values[0].axes.index((BATCH,))
    return laid(name, call.assembly.shape(name), memory, values[0].rank, values[0].batch, at)
