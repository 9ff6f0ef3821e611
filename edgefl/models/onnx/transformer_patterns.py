"""RMSNorm, rotary positions, and attention whose heads share keys, as edgefl's export writes them out.

RMSNorm is x / sqrt(mean of x^2 + eps), also with a reciprocal, as other exporters write it. operators_of_norms.py takes
the product behind it for the weight. The constants of rotary positions and the masks of attention stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Attention, RMSNorm, Rotary
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, laid
from edgefl.models.onnx.index_tracing import Tracer
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, OnnxValue, parameter
from edgefl.models.onnx.onnx_content import OnnxNode
from edgefl.models.onnx.operators_of_products import features_first, with_features, with_parameters


class TransformerPatterns:
    """The search for these operations at the quotients, sums and products of a file."""

    def __init__(self, tracer: Tracer, makers: Mapping[str, OnnxNode], values: Mapping[str, OnnxValue]) -> None:
        self._tracer, self._makers, self._values = tracer, makers, values

    def found(self, call: OnnxCall) -> OnnxResult | None:
        """Return the result of an operation that ends in this node, or None."""
        readers = {"Div": self._quotient, "Mul": self._product, "Add": self._rotary, "MatMul": self._attention}
        try:
            return readers[call.node.operator](call) if call.node.operator in readers else None
        except (GraphError, ValueError):  # masks of a shape that no exporter writes
            return None

    def _maker(self, name: str, *operators: str) -> OnnxNode | None:
        node = self._makers.get(name)
        return node if node is not None and node.operator in operators else None

    def _value(self, name: str) -> OnnxResult | None:
        found = self._values.get(name)
        return found if isinstance(found, OnnxResult) else None

    def _with_scalar(self, node: OnnxNode | None) -> tuple[str, float] | None:
        """Return the value and the number that a sum or a product of both has."""
        for at in (0, 1) if node is not None else ():
            assert node is not None
            if (number := self._tracer.scalar(node.inputs[at])) is not None:
                return node.inputs[1 - at], number
        return None

    # RMSNorm.

    def _quotient(self, call: OnnxCall) -> OnnxResult | None:
        """Read x / sqrt(mean of x^2 + eps)."""
        return self._normed(call, call.node.inputs[0], self._maker(call.node.inputs[1], "Sqrt"))

    def _product(self, call: OnnxCall) -> OnnxResult | None:
        """Read x times 1 / sqrt(mean of x^2 + eps)."""
        for at in (0, 1):
            inverse = self._maker(call.node.inputs[at], "Reciprocal", "Div")
            if inverse is None or (inverse.operator == "Div" and self._tracer.scalar(inverse.inputs[0]) != 1):
                continue
            found = self._normed(call, call.node.inputs[1 - at], self._maker(inverse.inputs[-1], "Sqrt"))
            if found is not None:
                return found
        return None

    def _normed(self, call: OnnxCall, x: str, root: OnnxNode | None) -> OnnxResult | None:
        shifted = self._with_scalar(None if root is None else self._maker(root.inputs[0], "Add"))
        mean = None if shifted is None else self._maker(shifted[0], "ReduceMean")
        value = self._value(x)
        if shifted is None or mean is None or value is None or self._squared(mean.inputs[0]) != x:
            return None
        axes = self._axes(mean)
        if len(axes) != 1 or not mean.attributes.get("keepdims", 1):
            return None
        return _rms_normed(call, value, value.axis(axes[0]), float(f"{shifted[1]:.6g}"))

    def _squared(self, name: str) -> str:
        """Return the name of what is squared, or "" if it is not a square."""
        node = self._maker(name, "Mul", "Pow")
        if node is None or len(node.inputs) != 2:
            return ""
        is_square = node.inputs[0] == node.inputs[1] if node.operator == "Mul" else self._is_two(node.inputs[1])
        return node.inputs[0] if is_square else ""

    def _is_two(self, name: str) -> bool:
        return self._tracer.scalar(name) == 2

    def _axes(self, mean: OnnxNode) -> list[int]:
        found = mean.attributes.get("axes")
        if found is None and len(mean.inputs) > 1 and (array := self._tracer.constant(mean.inputs[1])) is not None:
            found = array.ravel()[:8].tolist()
        return found if isinstance(found, list) else []

    # Rotary positions.

    def _rotary(self, call: OnnxCall) -> OnnxResult | None:
        """Read x cos + (the halves of x exchanged, with signs) sin, for x [batch, runs, features, positions]."""
        for at in (0, 1):
            straight, turned = (self._maker(name, "Mul") for name in call.node.inputs[:: 1 - 2 * at])
            sides = [None if node is None else self._with_constant(node) for node in (straight, turned)]
            other = None if sides[1] is None else self._maker(sides[1][0], "Mul")
            signed = None if other is None else self._with_constant(other)
            moved = None if signed is None else self._maker(signed[0], "Gather")
            if sides[0] is None or sides[1] is None or signed is None or moved is None:
                continue
            value = self._value(sides[0][0])
            order = self._tracer.constant(moved.inputs[1])
            if value is None or order is None or moved.inputs[0] != sides[0][0] or value.rank != 4:
                continue
            size = value.extents[2]
            if moved.attributes.get("axis", 0) == 2 and _exchanges_halves(order, signed[1].array, size):
                return _rotated(call, value, sides[0][1], sides[1][1])
        return None

    def _with_constant(self, node: OnnxNode) -> tuple[str, Constant] | None:
        for at in (0, 1):
            if isinstance(found := self._values.get(node.inputs[at]), Constant):
                return node.inputs[1 - at], found
        return None

    # Attention.

    def _attention(self, call: OnnxCall) -> OnnxResult | None:
        """Read v softmax(k^T q scale + masks) of heads [batch, heads, features, positions], gathered from one value."""
        softmax = self._maker(call.node.inputs[1], "Softmax")
        if softmax is None or softmax.attributes.get("axis", -1) != 2:
            return None
        scores, masks = softmax.inputs[0], list[Constant]()
        while (added := self._maker(scores, "Add")) is not None and len(masks) < 2:
            if (found := self._with_constant(added)) is None:
                return None
            scores, masks = found[0], [found[1], *masks]
        scaled = self._with_scalar(self._maker(scores, "Mul"))
        product = None if scaled is None else self._maker(scaled[0], "MatMul")
        keys = None if product is None else self._maker(product.inputs[0], "Transpose")
        if scaled is None or product is None or keys is None or keys.attributes.get("perm") != [0, 1, 3, 2]:
            return None
        heads = [self._heads(name) for name in (product.inputs[1], keys.inputs[0], call.node.inputs[0])]
        if any(each is None or each[0] != heads[0][0] for each in heads if heads[0] is not None):
            return None
        value = None if heads[0] is None else self._value(heads[0][0])
        if value is None or value.rank != 4:
            return None
        return _attended(call, value, [ids for _, ids in filter(None, heads)], scaled[1], masks)

    def _heads(self, name: str) -> tuple[str, list[int]] | None:
        """Return the value of all heads, and the heads that are gathered from it."""
        node = self._maker(name, "Gather")
        ids = None if node is None else self._tracer.constant(node.inputs[1])
        if node is None or ids is None or node.attributes.get("axis", 0) != 1:
            return None
        return node.inputs[0], [int(each) for each in ids.ravel()[:4096].tolist()]


def _rms_normed(call: OnnxCall, value: OnnxResult, axis: int, eps: float) -> OnnxResult:
    """Add an RMSNorm over one axis, with a weight of ones. Runs of channels before the axis stay channels."""
    own, width = value.axes[axis], value.extents[axis]
    if not own or BATCH in own or list(own) != list(range(own[0], own[-1] + 1)):
        raise GraphError(f"a norm over axis {axis} of {value}; expected one axis of features")
    ones = {"weight": Constant(np.ones(width, np.float32))}
    runs, positions = math.prod(value.atoms[: own[0]]), math.prod(value.atoms[own[-1] + 1 :])
    if runs > 1 and positions == 1:  # features are last
        name, rest = features_first(call, value, own)
        added = with_parameters(call, RMSNorm(width, eps), name, ones)
        return with_features(value, axis, added, call.assembly.shape(added), rest)
    shape = (runs * width, positions) if positions > 1 else (runs * width,)
    added = with_parameters(call, RMSNorm(width, eps), call.assembly.viewed(value.name, shape), ones)
    return OnnxResult(added, shape, value.atoms, value.axes, value.batch)


def _exchanges_halves(order: np.ndarray, signs: np.ndarray, size: int) -> bool:
    """Return whether the halves of a run are exchanged, and the half that is now first is negated."""
    half = size // 2
    wanted = [*range(half, size), *range(half)]
    return size % 2 == 0 and order.ravel().tolist() == wanted and signs.ravel().tolist() == [-1] * half + [1] * half


def _rotated(call: OnnxCall, value: OnnxResult, cos: Constant, sin: Constant) -> OnnxResult:
    name, (_, width, positions) = _as_channels(call, value), value.extents[1:]
    values = {"cos": parameter(cos, (width, positions)), "sin": parameter(sin, (width, positions))}
    origins = {"cos": cos.origin, "sin": sin.origin}
    added = call.assembly.add(Rotary(width, positions), (name,), values, origins, frozen=True)
    return _as_heads(added, call.assembly.shape(added), value)


def _as_channels(call: OnnxCall, value: OnnxResult) -> str:
    """Return [batch, runs, features, positions] as [batch, runs x features, positions]."""
    channels = tuple(atom for axis in value.axes[1:3] for atom in axis)
    return call.assembly.placed(value, [channels, value.axes[3]])


def _as_heads(name: str, shape: tuple[int, ...], value: OnnxResult) -> OnnxResult:
    runs = [shape[0] // value.extents[2], *value.extents[2:]]
    return laid(name, shape, list(enumerate(runs, start=1)), 4, value.batch)


def _attended(
    call: OnnxCall, value: OnnxResult, ids: Sequence[Sequence[int]], scale: float, masks: Sequence[Constant]
) -> OnnxResult:
    heads, (count, width, positions) = len(ids[0]), value.extents[1:]
    shared = (count - heads) // 2
    if shared < 1 or heads % shared or heads + 2 * shared != count:
        raise GraphError(f"{heads} of {count} heads; expected heads of queries, and equally many of keys and values")
    times = np.arange(shared).repeat(heads // shared)
    if [list(each) for each in ids] != [list(range(heads)), *((heads + at * shared + times).tolist() for at in (0, 1))]:
        raise GraphError("heads in another order; expected runs of queries that share a head of keys")
    is_causal, window, bias, origin = False, 0, None, ""
    for mask in masks:
        if np.isneginf(mask.array).any():
            is_causal, window = True, _window(mask.array, positions)
        else:
            bias, origin = _bias(mask.array, heads, positions), mask.lineage or mask.origin
    shape = () if bias is None else bias.shape
    op = Attention(heads, shared, width, float(f"{scale:.7g}"), is_causal, window, 0.0, shape)
    held = {} if bias is None else {"bias": bias}
    added = call.assembly.add(op, (_as_channels(call, value),), held, dict.fromkeys(held, origin))
    return _as_heads(added, call.assembly.shape(added), value)


def _window(mask: np.ndarray, positions: int) -> int:
    """Return the window of a mask [keys, queries] of 0 and -inf. 0 stands for all earlier keys. Raises GraphError for
    another mask.
    """
    behind = np.arange(positions) - np.arange(positions)[:, None]  # query minus key
    left_out = np.isneginf(mask.reshape(-1, positions))
    reach = int(behind[~left_out].max(initial=0)) + 1 if left_out.shape == behind.shape else 0
    if left_out.shape != behind.shape or not (left_out == ((behind < 0) | (behind >= reach))).all():
        raise GraphError(f"a mask of shape {mask.shape}; expected a causal mask, or one with a window")
    return 0 if reach == positions else reach


def _bias(array: np.ndarray, heads: int, positions: int) -> np.ndarray:
    """Return a bias [masks, keys, queries] with the fewest masks that stand for it."""
    found = parameter(Constant(array)).reshape(-1, positions, positions)
    for masks in (each for each in range(1, len(found)) if len(found) % each == 0 and heads % each == 0):
        few = found[:: len(found) // masks]
        if (few.repeat(len(found) // masks, axis=0) == found).all():
            return few
    return found
