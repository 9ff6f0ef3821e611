"""Normalisations: ONNX operators, and the affine pair that exporters write as a product and a sum behind them."""

from __future__ import annotations

import math

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, Operation, RMSNorm
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, laid, standard
from edgefl.models.onnx.graph_assembly import NodeDraft
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, long_axes, parameter, widened
from edgefl.models.onnx.operators_of_products import (
    channels_first,
    features_first,
    with_features,
    with_parameters,
)


def batch_norm(call: OnnxCall) -> OnnxResult:
    value = call.value()
    if call.attribute("training_mode", 0) or call.attribute("spatial", 1) != 1:
        raise GraphError("training_mode=1 or spatial=0; expected a model that was exported for inference")
    name = channels_first(call, value)
    eps, momentum = call.number("epsilon", None, 1e-5), call.number("momentum", None, 0.9)
    kind = BatchNorm2d if value.rank == 4 else BatchNorm1d
    op = kind(value.extents[1], _rounded(eps), _rounded(1 - momentum))
    parts = ("weight", "bias", "running_mean", "running_var")
    constants = {part: call.constant(at) for at, part in enumerate(parts, start=1)}
    added = with_parameters(call, op, name, constants)
    return standard(added, call.assembly.shape(added), value.batch)


def _rounded(number: float) -> float:
    """Return the number that was written as float32, such as 1e-5."""
    return float(f"{number:.6g}")


def layer_norm(call: OnnxCall) -> OnnxResult:
    value = call.value()
    first = value.axis(call.attribute("axis", -1))
    axes = list(range(first, value.rank))
    weight = call.constant(1)
    bias = call.constant(2) if call.has(2) else Constant(np.zeros(1, np.float32))
    return layer_normed(call, value, axes, _rounded(call.number("epsilon", None, 1e-5)), weight, bias)


def layer_normed(
    call: OnnxCall, value: OnnxResult, axes: list[int], eps: float, weight: Constant, bias: Constant
) -> OnnxResult:
    """Add a LayerNorm over the last axes: over the channels at each position, or over all values of a sample."""
    long = [at for at in axes if value.axes[at]] or axes[-1:]
    own = tuple(atom for at in axes for atom in value.axes[at])
    if BATCH in own:
        raise GraphError(f"a norm over the batch of {value}; expected a norm over other axes")
    if len(long) > 1 and (len(own) < len(value.atoms) or len(long) > 3):
        raise GraphError(f"a norm over axes {axes} of {value}; expected one axis, or all axes but the batch")
    if len(long) == 1:
        name, rest = features_first(call, value, value.axes[long[0]])
        shape: tuple[int, ...] = (value.extents[long[0]],)
    else:
        name, rest = call.assembly.placed(value, [value.axes[at] for at in long]), []
        shape = tuple(value.extents[at] for at in long)
    constants = {"weight": _repeated(weight, shape), "bias": _repeated(bias, shape)}
    added = with_parameters(call, LayerNorm(shape, eps), name, constants)
    if len(long) == 1:
        return with_features(value, long[0], added, call.assembly.shape(added), rest)
    memory = [(at, value.extents[at]) for at in long]
    return laid(added, shape, memory, value.rank, value.batch, value.axes.index((BATCH,)))


def _repeated(constant: Constant, shape: tuple[int, ...]) -> Constant:
    """Return one value as a parameter of a shape. A constant with more values stays."""
    array = constant.array
    return constant if array.size > 1 else Constant(np.broadcast_to(array.reshape(()), shape), constant.origin)


def instance_norm(call: OnnxCall) -> OnnxResult:
    """Read a norm of each channel, or of each group of channels if a Reshape has joined channels into groups."""
    value, weight, bias = call.value(), call.constant(1), call.constant(2)
    if value.others != list(range(1, value.rank)) or value.rank < 3:
        raise GraphError(f"input {value}; expected [batch, channels, ...]")
    eps, groups = _rounded(call.number("epsilon", None, 1e-5)), value.extents[1]
    if {weight.array.size, bias.array.size} - {1, groups}:
        raise GraphError(f"{weight.array.size} scales for {value}; expected one for each channel")
    is_plain = bool((weight.array == 1).all() and (bias.array == 0).all())
    own = len(value.shape) > 1 and value.shape[0] % groups == 0 and value.shape[0] > groups
    channels = value.shape[0] if is_plain and own else groups
    constants = {"weight": _repeated(weight, (channels,)), "bias": _repeated(bias, (channels,))}
    if is_plain:
        constants = {part: Constant(np.full(channels, part == "weight", np.float32)) for part in constants}
    return group_normed(call, value, GroupNorm(groups, channels, eps), constants)


def group_norm(call: OnnxCall) -> OnnxResult:
    value, groups = call.value(), call.attribute("num_groups", 1)
    if value.others != list(range(1, value.rank)) or value.rank < 3:
        raise GraphError(f"input {value}; expected [batch, channels, ...]")
    channels = value.extents[1]
    op = GroupNorm(groups, channels, _rounded(call.number("epsilon", None, 1e-5)))
    repeats = 1 if call.opset >= 21 else channels // groups  # before opset 21 there was one pair for each group
    pairs = {part: call.constant(at) for at, part in enumerate(("weight", "bias"), start=1)}
    constants = {part: Constant(np.repeat(each.array, repeats), each.origin) for part, each in pairs.items()}
    return group_normed(call, value, op, constants)


def group_normed(call: OnnxCall, value: OnnxResult, op: GroupNorm, constants: dict[str, Constant]) -> OnnxResult:
    """Add a GroupNorm of planes [channels, height, width], under the axes that the value has."""
    order = [atom for axis in value.axes if axis != (-1,) for atom in axis]
    if order != list(range(len(order))):
        name = call.assembly.placed(value, [value.axes[1], tuple(order[len(value.axes[1]) :])])
        moved = OnnxResult(name, call.assembly.shape(name), (), (), value.batch)
        raise GraphError(f"input {moved.shape} in another order of axes; expected channels before positions")
    size = math.prod(value.shape) // op.num_channels
    planes = value.shape if len(value.shape) == 3 and value.shape[0] == op.num_channels else (op.num_channels, 1, size)
    name = call.assembly.viewed(value.name, planes)
    added = with_parameters(call, op, name, constants)
    return OnnxResult(added, planes, value.atoms, value.axes, value.batch)


def with_affine(call: OnnxCall, value: OnnxResult, constant: Constant, is_product: bool) -> bool:
    """Take a product or a sum with a value per channel into the affine pair of the norm before it, if it may be.

    Returns whether it was taken. The norm's own pair must be 1 and 0, as exporters write it, and nobody else may read
    the norm's result.
    """
    draft = call.assembly.drafts.get(value.name)
    if draft is None or not call.is_sole_use(value.name):
        return False
    if isinstance(draft.op, RMSNorm) and is_product:
        return _with_gain(draft, value, constant)
    if not isinstance(draft.op, GroupNorm | LayerNorm):
        return False
    part = "weight" if is_product else "bias"
    is_free = not draft.origins.get(part) and bool((draft.values[part] == (1 if is_product else 0)).all())
    is_first = not is_product or not draft.values["bias"].any()
    array = _along_channels(value, constant, draft.op)
    if not is_free or not is_first or array is None:
        return False
    draft.values[part], draft.origins[part] = array, constant.origin
    return True


def _with_gain(draft: NodeDraft, value: OnnxResult, constant: Constant) -> bool:
    """Take a product with a value for each feature as the weight of the RMSNorm before it.

    Returns whether it was taken. The weight of the norm must be ones so far.
    """
    wide, width = widened(constant.array, value.rank), draft.values["weight"].size
    long = long_axes(wide)
    if draft.origins.get("weight") or (draft.values["weight"] != 1).any() or len(long) != 1 or wide.size != width:
        return False
    own = value.axes[long[0]]
    behind = math.prod(value.atoms[own[-1] + 1 :]) if own else 0
    if value.extents[long[0]] != width or behind != math.prod(draft.shape[1:]):
        return False
    draft.values["weight"], draft.origins["weight"] = parameter(constant, (width,)), constant.origin
    return True


def _along_channels(value: OnnxResult, constant: Constant, op: Operation) -> np.ndarray | None:
    """Return a constant in the shape of the norm's parameters, or None if it does not lie along their axes."""
    (shape,) = {info.shape for info in op.parameters().values()}
    wide = widened(constant.array, value.rank)
    long = long_axes(wide)
    found = tuple(atom for at in long for atom in value.axes[at])
    is_long = all(wide.shape[at] == value.extents[at] for at in long)
    if wide.ndim != value.rank or wide.size != math.prod(shape) or not is_long:
        return None
    sizes = math.prod(value.atoms[atom] for atom in found)
    if found != tuple(range(len(found))) or sizes != math.prod(shape):
        return None
    return parameter(Constant(wide, constant.origin), shape)
