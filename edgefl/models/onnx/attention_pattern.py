"""Self-attention that exporters write out: softmax(q k / sqrt(d)) v with q, k and v from one value.

The rows of the weights that become q, k and v of each head are found by tracing indices. So it does not matter how an
exporter splits the heads. The rows are then put in the order in which SelfAttention has them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Conv1d, Conv2d, Linear, SelfAttention
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, regrouped
from edgefl.models.onnx.graph_assembly import Assembly, NodeDraft
from edgefl.models.onnx.index_tracing import LONGEST, Traced, Tracer, batch_of
from edgefl.models.onnx.onnx_call import Constant, OnnxCall
from edgefl.models.onnx.onnx_content import OnnxNode

LEAST_MASK = -1e4  # numbers below it leave a position out


class _Scores(NamedTuple):
    """The two factors of the products of queries and keys, the scale behind them, and the mask."""

    queries: str
    keys: str
    scale: float
    mask: np.ndarray | None


class _Rows(NamedTuple):
    """The rows of a product that each head reads, in order.

    draft  the product
    rows   [heads, features of a head]
    """

    draft: NodeDraft
    rows: np.ndarray


class AttentionPatterns:
    """The search for attention at the products of a file."""

    def __init__(self, tracer: Tracer, makers: dict[str, OnnxNode], assembly: Assembly) -> None:
        self._tracer, self._makers, self._assembly = tracer, makers, assembly

    def attention(self, call: OnnxCall) -> OnnxResult | None:
        """Return the result of attention whose last product is this node, or None."""
        if call.node.operator != "MatMul" or any(isinstance(each, Constant) for each in call.inputs):
            return None
        try:
            return self._attention(call)
        except GraphError:
            return None

    def _attention(self, call: OnnxCall) -> OnnxResult | None:
        for side, is_turned in ((0, False), (1, True)):
            shares = call.node.inputs[side]
            if is_turned:  # v times the transposed shares
                node = self._makers.get(shares)
                order = node.attributes.get("perm") if node is not None and node.operator == "Transpose" else None
                if node is None or not order or order[:-2] + order[:-3:-1] != list(range(len(order))):
                    continue
                shares = node.inputs[0]
            if (scores := self._scores(shares)) is not None:
                return self._built(call, scores, call.node.inputs[1 - side], is_turned)
        return None

    def _scores(self, name: str) -> _Scores | None:
        """Return the factors of the scores behind a softmax over the last axis, or None."""
        name = self._without_guard(name)
        node = self._makers.get(name)
        if node is None or node.operator != "Softmax" or node.attributes.get("axis", -1) not in (-1, 2, 3):
            return None
        name, scale, mask = node.inputs[0], 1.0, None
        for _ in range(LONGEST):
            if (node := self._makers.get(name)) is None:
                break
            if (found := self._tracer.scaling(node)) is not None:
                if mask is not None:
                    mask = mask / found[1]
                name, scale = found[0], scale * found[1]
            elif node.operator == "Add" and mask is None and (found_mask := self._mask(node)) is not None:
                name, mask = found_mask
            elif node.operator == "Identity":
                name = node.inputs[0]
            else:
                break
        if node is None or node.operator != "MatMul":
            return None
        return _Scores(node.inputs[0], node.inputs[1], scale, mask)

    def _without_guard(self, name: str) -> str:
        """Return the softmax behind Where(IsNaN(x), 0, x), which exporters add for rows that are masked as a whole."""
        node = self._makers.get(name)
        for _ in range(LONGEST):
            if node is None or node.operator not in ("Identity", "Dropout"):
                break
            name = node.inputs[0]
            node = self._makers.get(name)
        if node is None or node.operator != "Where" or len(node.inputs) != 3:
            return name
        test = self._makers.get(node.inputs[0])
        is_guard = test is not None and test.operator == "IsNaN" and test.inputs[0] == node.inputs[2]
        return node.inputs[2] if is_guard and self._tracer.scalar(node.inputs[1]) == 0 else name

    def _mask(self, node: OnnxNode) -> tuple[str, np.ndarray] | None:
        for at in (0, 1):
            if (array := self._tracer.constant(node.inputs[at])) is not None:
                return node.inputs[1 - at], array
        return None

    def _built(self, call: OnnxCall, scores: _Scores, values: str, is_turned: bool) -> OnnxResult:
        traced = [self._tracer.traced(name) for name in (scores.queries, scores.keys, values)]
        moved = [traced[0].indices, traced[1].indices.swapaxes(-1, -2), traced[2].indices]
        if is_turned:
            moved[2] = moved[2].swapaxes(-1, -2)
        if len({each.shape for each in moved}) != 1:
            raise GraphError(f"queries, keys and values of shapes {[each.shape for each in moved]}; expected one shape")
        *leading, positions, head_dim = moved[0].shape
        batch = batch_of(traced[0].source)
        parts = [self._rows(each, index, batch) for each, index in zip(traced, moved, strict=True)]
        heads = parts[0].rows.shape[0]
        if len({part.draft.inputs for part in parts}) != 1:
            raise GraphError("queries, keys and values of different inputs; expected one input")
        op = SelfAttention(_in_features(parts[0].draft), heads, head_dim, _is_causal(scores.mask, positions))
        factor = traced[0].scale * traced[1].scale * scores.scale * math.sqrt(head_dim)
        values_scale = traced[2].scale
        name = self._added(op, parts, (factor, 1.0, values_scale))
        extents = [each // batch * call.batch if each % batch == 0 else each for each in leading]
        return _under(name, self._assembly.shape(name), (heads, head_dim, positions), extents, is_turned, call.batch)

    def _rows(self, traced: Traced, index: np.ndarray, batch: int) -> _Rows:
        """Return the rows that each head reads. Raises GraphError unless all samples and positions read alike."""
        value = traced.source
        draft = self._assembly.drafts.get(value.name)
        if draft is None or not _is_product(draft):
            raise GraphError("values that are not the result of a product; expected a Linear layer")
        at = [axis for axis in value.others if value.axes[axis] == (0,)]
        if len(at) != 1 or value.atoms[0] != value.shape[0]:
            raise GraphError(f"{value}; expected one axis of features")
        extents = [batch if axis == (BATCH,) else size for axis, size in zip(value.axes, value.extents, strict=True)]
        place = np.unravel_index(index.reshape(-1, *index.shape[-2:]), extents)
        features, samples = place[at[0]], place[value.axes.index((BATCH,))]
        positions = np.zeros_like(features)
        for axis in sorted((axis for axis in value.others if axis != at[0]), key=lambda axis: value.axes[axis]):
            positions = positions * extents[axis] + place[axis]
        own = np.arange(index.shape[-2])[None, :, None]
        of_head = features[: len(features) // batch, 0]
        is_alike = (positions == own).all() and (samples == np.arange(batch).repeat(len(of_head))[:, None, None]).all()
        if not is_alike or not (features == np.tile(of_head, (batch, 1))[:, None, :]).all():
            raise GraphError("heads that read different features at different positions; expected heads of one kind")
        return _Rows(draft, of_head)

    def _added(self, op: SelfAttention, parts: list[_Rows], scales: tuple[float, float, float]) -> str:
        weights = [part.draft.values["weight"].reshape(-1, op.in_features)[part.rows.ravel()] for part in parts]
        biases = [
            part.draft.values.get("bias", np.zeros(len(part.draft.values["weight"]), np.float32))[part.rows.ravel()]
            for part in parts
        ]
        joined = {"in_proj_weight": _joined(weights, scales), "in_proj_bias": _joined(biases, scales)}
        names = [part.draft.origins.get("weight", "") for part in parts]
        is_one = len(set(names)) == 1 and names[0].endswith("in_proj_weight")
        origins = {"in_proj_weight": names[0]} if is_one else {}
        if not any("bias" in part.draft.values for part in parts):
            op = SelfAttention(op.in_features, op.num_heads, op.head_dim, op.causal, bias=False)
        held = {name: joined[name] for name in op.parameters()}
        return self._assembly.add(op, parts[0].draft.inputs, held, origins)


def _joined(arrays: list[np.ndarray], scales: tuple[float, float, float]) -> np.ndarray:
    scaled = [array if abs(scale - 1) < 1e-5 else array * np.float32(scale) for array, scale in zip(arrays, scales)]
    return np.concatenate(scaled)


def _is_product(draft: NodeDraft) -> bool:
    if isinstance(draft.op, Conv1d):
        return draft.op.kernel_size == 1 and draft.op.stride == 1 and draft.op.groups == 1 and draft.op.padding == 0
    if isinstance(draft.op, Conv2d):
        plain = Conv2d(draft.op.in_channels, draft.op.out_channels, (1, 1), bias=draft.op.bias)
        return draft.op == plain
    return isinstance(draft.op, Linear)


def _in_features(draft: NodeDraft) -> int:
    return int(draft.values["weight"].shape[1])


def _is_causal(mask: np.ndarray | None, positions: int) -> bool:
    """Return whether a mask leaves out all later positions. Raises GraphError for another mask."""
    if mask is None or not mask.any():
        return False
    found = mask.reshape(mask.shape[-2:]) if mask.size == positions**2 else mask
    later = np.triu(np.ones((positions, positions), bool), 1)
    if found.shape != later.shape or found[~later].any() or not (found[later] < LEAST_MASK).all():
        raise GraphError(f"a mask of shape {mask.shape}; expected no mask, or a causal mask")
    return True


def _under(
    name: str, shape: tuple[int, ...], sizes: tuple[int, int, int], leading: list[int], is_turned: bool, batch: int
) -> OnnxResult:
    """Return the result of attention under the axes [*leading, positions, features], or the last two exchanged."""
    atoms = [size for size in sizes if size > 1]
    place, at = list[tuple[int, ...]](), 0
    for size in sizes:
        place.append((at,) if size > 1 else ())
        at += size > 1
    heads, features, positions = place
    last = (features, positions) if is_turned else (positions, features)
    value = OnnxResult(name, shape, tuple(atoms), ((BATCH,), heads, *last), batch)
    found = regrouped(value, [*leading, *value.extents[2:]])
    if found is None:
        raise GraphError(f"heads in axes of {leading}; expected the batch and then the heads")
    return found
