"""Axes, shapes and positions: ONNX operators that move values, or only say how axes lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import Slice
from edgefl.models.onnx.axis_atoms import (
    BATCH,
    OnnxResult,
    laid,
    regrouped,
    transposed,
    with_axes,
    without_axes,
)
from edgefl.models.onnx.onnx_call import MOST_LISTED, Constant, OnnxCall
from edgefl.models.onnx.operators_of_products import embedding

ENOUGH = 2**31 - 1  # exporters write larger numbers for the end of an axis


def shape_of(call: OnnxCall) -> Constant:
    value = call.value()
    extents = value.extents[call.attribute("start", 0) : call.attribute("end", value.rank)]
    return Constant(np.asarray(extents, np.int64))


def size_of(call: OnnxCall) -> Constant:
    return Constant(np.asarray(math.prod(call.value().extents), np.int64))


def transpose(call: OnnxCall) -> OnnxResult:
    value = call.value()
    return transposed(value, call.integers("perm") or list(range(value.rank))[::-1])


def squeeze(call: OnnxCall) -> OnnxResult:
    value = call.value()
    axes = call.integers("axes", 1)
    if axes is None:
        axes = [at for at, axis in enumerate(value.axes) if not axis]
    return without_axes(value, axes)


def unsqueeze(call: OnnxCall) -> OnnxResult:
    return with_axes(call.value(), call.integers("axes", 1) or [])


def flatten(call: OnnxCall) -> OnnxResult:
    value, axis = call.value(), call.attribute("axis", 1)
    at = axis + value.rank if axis < 0 else axis
    if at != 1 or value.axes[0] != (BATCH,):
        raise GraphError(f"axis={axis} of {value}; expected axis=1 behind the batch")
    return _reshaped(call, value, [value.batch, math.prod(value.extents[1:])])


def reshape(call: OnnxCall) -> OnnxResult:
    value, wanted = call.value(), call.integers("shape", 1) or []
    keeps_zero = not call.attribute("allowzero", 0)
    if any(size == 0 and at >= value.rank for at, size in enumerate(wanted)) or min(wanted, default=1) < -1:
        raise GraphError(f"shape={wanted} of {value}; expected extents, 0 for an unchanged extent, and -1 once")
    sizes = [value.extents[at] if size == 0 and keeps_zero else size for at, size in enumerate(wanted)]
    count, known = math.prod(value.extents), math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or known == 0 or count % known or (-1 not in sizes and count != known):
        raise GraphError(f"shape={_shown(value, wanted)} of {value}; expected as many values: {tied(value)}")
    return _reshaped(call, value, [count // known if size == -1 else size for size in sizes])


def _shown(value: OnnxResult, sizes: list[int]) -> str:
    return f"[{', '.join('batch' if size == value.batch > 1 else str(size) for size in sizes)}]"


def tied(value: OnnxResult) -> str:
    """Return what helps where a graph joins the batch with another axis."""
    if value.batch == 1:
        return "an axis of extent 1 for the batch"
    return "the graph is tied to one batch size, so export with a batch axis that is dynamic"


def _reshaped(call: OnnxCall, value: OnnxResult, extents: list[int]) -> OnnxResult:
    if (found := regrouped(value, extents)) is not None:
        return found
    long = [axis for axis in value.axes if axis and axis != (BATCH,)]
    order = tuple(atom for axis in long for atom in axis)
    if value.axes[0] != (BATCH,):
        raise GraphError(f"shape={_shown(value, extents)} of {value}; expected the batch first and by itself")
    name = call.assembly.placed(value, long if 1 <= len(long) <= 3 else [order])
    size = math.prod(value.atoms)
    whole = replace(value, name=name, shape=call.assembly.shape(name), atoms=(size,), axes=((BATCH,), (0,)))
    if size == 1 or (found := regrouped(whole, extents)) is None:
        raise GraphError(f"shape={_shown(value, extents)} of {value}; expected the batch first in both: {tied(value)}")
    return found


def sliced(call: OnnxCall, value: OnnxResult, axis: int, start: int, length: int) -> OnnxResult:
    """Take a run of positions along one axis."""
    if value.axes[axis] == (BATCH,):
        raise GraphError(f"some samples of the batch of {value}; expected another axis")
    size = value.extents[axis]
    if not 0 <= start < start + length <= size:
        raise GraphError(f"positions {start} to {start + length} of {value}; expected positions below {size}")
    if length == size:
        return value
    others = [at for at in value.others if at != axis and value.axes[at]]
    if all(list(value.axes[at]) == sorted(value.axes[at]) for at in others):
        others = sorted(others, key=lambda at: value.axes[at])
    rest = tuple(atom for at in others for atom in value.axes[at])
    name = call.assembly.placed(value, [rest, value.axes[axis]])
    added = call.assembly.add(Slice(start, length), (name,))
    memory = [*((at, value.extents[at]) for at in others), (axis, length)]
    return laid(added, call.assembly.shape(added), memory, value.rank, value.batch, value.axes.index((BATCH,)))


def slice_of(call: OnnxCall) -> OnnxResult:
    value = call.value()
    starts, ends = call.integers("starts", 1) or [], call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise GraphError(f"starts={starts}, ends={ends}, axes={axes}, steps={steps}; expected equally many")
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis = value.axis(axis)
        size = value.extents[axis]
        if step > 1 and start == max(start, 0) < step and end >= min(size, ENOUGH) and size % step == 0:
            value = _strided(call, value, axis, start, step)
            continue
        call.expect("step", step, 1)
        if BATCH in value.axes[axis] and start == 0 and end >= min(size, ENOUGH):
            continue
        first, after, _ = slice(start, end, step).indices(size)
        value = sliced(call, value, axis, first, after - first)
    return value


def _strided(call: OnnxCall, value: OnnxResult, axis: int, start: int, step: int) -> OnnxResult:
    """Take every position that is `start` above a multiple of `step`: one column of a table with `step` columns."""
    extents = list(value.extents)
    table = _reshaped(call, value, [*extents[:axis], extents[axis] // step, step, *extents[axis + 1 :]])
    return without_axes(sliced(call, table, axis + 1, start, 1), [axis + 1])


def gather(call: OnnxCall) -> OnnxResult:
    """Read rows of a table at ids, or one position or a run of positions of a value."""
    if isinstance(call.inputs[0], Constant):
        return embedding(call)
    value, ids = call.value(), call.constant(1).array
    axis = value.axis(call.attribute("axis", 0))
    size = value.extents[axis]
    if ids.size > size:
        raise GraphError(f"{ids.size} positions of {value}; expected positions below {size}")
    listed = [int(each) % size if -size <= each < size else size for each in ids.ravel().tolist()]
    if ids.ndim > 1 or not listed or listed != list(range(listed[0], listed[0] + len(listed))):
        raise GraphError(
            f"positions {listed[:8]} of {value}; expected one position, or positions that follow each other"
        )
    found = sliced(call, value, axis, listed[0], len(listed))
    return found if ids.ndim else without_axes(found, [axis])


def split(call: OnnxCall) -> tuple[OnnxResult, ...]:
    value, count = call.value(), len(call.node.outputs)
    if count > MOST_LISTED:
        raise GraphError(f"{count} parts; the limit is {MOST_LISTED}")
    axis = value.axis(call.attribute("axis", 0))
    size = value.extents[axis]
    each = -(-size // count)
    sizes = call.integers("split", 1) or [min(each, size - each * i) for i in range(count)]
    if len(sizes) != count or sum(sizes) != size or min(sizes) < 1:
        raise GraphError(f"split={sizes} of {value}; expected {count} sizes of {size} positions")
    return tuple(sliced(call, value, axis, sum(sizes[:i]), length) for i, length in enumerate(sizes))


def cast(call: OnnxCall) -> OnnxResult:
    """Read the input as ids, or a conversion to float32, which all values are."""
    value, to = call.value(), call.attribute("to", 1)
    if to in (6, 7):  # int32 and int64
        if value.name != INPUT:
            raise GraphError(f"integers of {value}; expected ids from the model's input")
        return replace(value, is_ids=True)
    if value.is_ids or to not in (1, 9):  # a test is 1 or 0
        raise GraphError(f"to={to}; expected float32, bool, or integers for the input")
    return value


def expand(call: OnnxCall) -> OnnxResult:
    """Read an Expand that repeats nothing."""
    value, wanted = call.value(), call.integers("shape", 1) or []
    padded = [1] * (value.rank - len(wanted)) + wanted
    if len(padded) != value.rank or any(size not in (1, own) for size, own in zip(padded, value.extents)):
        raise GraphError(f"shape={_shown(value, wanted)} of {value}; expected its own extents")
    return value


SHAPES: dict[str, Callable[[OnnxCall], OnnxResult | Constant | tuple[OnnxResult, ...]]] = {
    "Shape": shape_of,
    "Size": size_of,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Flatten": flatten,
    "Reshape": reshape,
    "Slice": slice_of,
    "Gather": gather,
    "Split": split,
    "Cast": cast,
    "Expand": expand,
    "Identity": lambda call: call.value(),
}
"""The meanings of operators on axes, shapes and positions, by name."""
