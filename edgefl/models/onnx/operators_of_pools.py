"""Pools, means over positions, padding and nearest resizing: ONNX operators along the positions of planes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    AvgPool1d,
    AvgPool2d,
    GlobalAvgPool,
    MaxPool1d,
    MaxPool2d,
    Operation,
    Upsample,
    ZeroPad2d,
)
from edgefl.models.onnx.axis_atoms import OnnxResult, laid, standard
from edgefl.models.onnx.onnx_call import OnnxCall
from edgefl.models.onnx.operators_of_products import channels_first, paddings, zeros_around
from edgefl.models.onnx.operators_of_resampling import BORDERS, cells_around, interpolate

LONGEST_RESIZED = 1 << 14  # cells along an axis
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}
"""The ways in which Resize finds the nearest cell, by ONNX's names."""


def max_pool(call: OnnxCall) -> OnnxResult:
    return _pool(call, is_average=False)


def average_pool(call: OnnxCall) -> OnnxResult:
    return _pool(call, is_average=True)


def _pool(call: OnnxCall, is_average: bool) -> OnnxResult:
    value = call.value()
    places = value.rank - 2
    kernel = call.integers("kernel_shape") or []
    if places not in (1, 2) or len(kernel) != places or min(kernel) < 1:
        raise GraphError(f"kernel_shape={kernel} for {value}; expected a 1-d or 2-d pool")
    stride = call.window("strides", 1, places)
    call.expect("dilations", call.window("dilations", 1, places), [1] * places)
    size = value.extents[2:]
    pads = paddings(call, size, kernel, stride)
    counts = bool(call.attribute("count_include_pad", 0)) and any(map(any, pads))
    rounds_up = bool(call.attribute("ceil_mode", 0))
    name = channels_first(call, value, as_planes=counts and any(a != b for a, b in pads))
    if counts and any(a != b for a, b in pads):
        name = zeros_around(call, name, pads)
        planes = standard(name, call.assembly.shape(name), value.batch)
        name = name if places == 2 else call.assembly.placed(planes, [planes.axes[1], planes.axes[3]])
        size, counts, pads = tuple(planes.shape[3 - places :]), False, [(0, 0)] * places
    windows = [_positions(*each, rounds_up) for each in zip(size, kernel, stride, pads, strict=True)]
    window = _Window(kernel, stride, pads)
    shape = call.assembly.shape(name)
    for op in _fitting(window, shape, windows, is_average, counts):
        name = call.assembly.add(op, (name,))
    return standard(name, call.assembly.shape(name), value.batch)


class _Window:
    """The settings of a pool as the operations of a graph have them."""

    def __init__(self, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[tuple[int, int]]) -> None:
        self.kernel, self.stride, self.pads = tuple(kernel), tuple(stride), tuple(pads)

    def along(self, axis: int) -> _Window:
        """Return the window along one of two axes, whose extent along the other axis is 1."""
        parts = ((self.kernel, 1), (self.stride, 1), (self.pads, (0, 0)))
        return _Window(*([each[axis] if at == axis else one for at in (0, 1)] for each, one in parts))  # type: ignore[arg-type]

    def op(self, is_average: bool, counts: bool, rounds_up: bool) -> Operation:
        before = tuple(pair[0] for pair in self.pads)
        window: tuple[Any, ...] = self.kernel, self.stride, before
        further = (counts, rounds_up) if is_average else (rounds_up,)
        if len(self.kernel) == 2:
            return (AvgPool2d if is_average else MaxPool2d)(*window, *further)
        return (AvgPool1d if is_average else MaxPool1d)(self.kernel[0], self.stride[0], before[0], *further)


def _fitting(
    window: _Window, shape: tuple[int, ...], wanted: list[int], is_average: bool, counts: bool
) -> list[Operation]:
    """Return pools with equal padding that have the wanted numbers of windows: one, or one along each of two axes.

    Padding at the end that is longer than at the beginning is a window that is cut there, as ceil_mode has it.
    """
    for rounds_up in (False, True):
        op = window.op(is_average, counts, rounds_up)
        if _has_windows(op, shape, wanted):
            return [op]
    is_along_both = len(wanted) == 2 and window.along(0).kernel != window.kernel != window.along(1).kernel
    if not is_along_both:
        raise GraphError(f"padding that gives {wanted} windows; expected equal padding before and after each axis")
    rows = _fitting(window.along(0), shape, [wanted[0], shape[2]], is_average, counts)
    return [*rows, *_fitting(window.along(1), rows[-1].output(shape), wanted, is_average, counts)]


def _has_windows(op: Operation, shape: tuple[int, ...], wanted: list[int]) -> bool:
    try:
        return list(op.output(shape)[1:]) == wanted
    except GraphError:  # rounded down, there may be no window at all
        return False


def _positions(size: int, kernel: int, stride: int, pads: tuple[int, int], rounds_up: bool) -> int:
    """Return the number of windows along one axis."""
    before, after = pads
    over = size + before + after - kernel
    count = (-(-over // stride) if rounds_up else over // stride) + 1
    return count - 1 if rounds_up and (count - 1) * stride >= size + before else count


def global_average(call: OnnxCall) -> OnnxResult:
    value = call.value()
    if value.rank < 3:
        raise GraphError(f"input {value}; expected [batch, channels, ...]")
    return mean_over(call, value, list(range(2, value.rank)), keeps=True)


def global_max(call: OnnxCall) -> OnnxResult:
    value = call.value()
    if value.rank < 3:
        raise GraphError(f"input {value}; expected [batch, channels, ...]")
    return mean_over(call, value, list(range(2, value.rank)), keeps=True, is_max=True)


def reduce_mean(call: OnnxCall) -> OnnxResult:
    return _reduced(call, is_max=False)


def reduce_max(call: OnnxCall) -> OnnxResult:
    return _reduced(call, is_max=True)


def _reduced(call: OnnxCall, is_max: bool) -> OnnxResult:
    value = call.value()
    axes = call.integers("axes", 1)
    if not axes:
        raise GraphError("a reduction over all axes, with the batch; expected axes")
    return mean_over(call, value, [value.axis(at) for at in axes], bool(call.attribute("keepdims", 1)), is_max)


def mean_over(call: OnnxCall, value: OnnxResult, axes: list[int], keeps: bool, is_max: bool = False) -> OnnxResult:
    """Add a mean, or the largest value, over some axes of a value."""
    kept = [at for at in value.others if at not in axes]
    if len(kept) + len(axes) != len(value.others):
        raise GraphError(f"a reduction over the batch of {value}; expected other axes")
    inner = [value.axes[at] for at in kept if value.axes[at]]
    outer = [value.axes[at] for at in axes if value.axes[at]]
    channels = tuple(atom for axis in inner for atom in axis)
    places = outer if len(outer) in (1, 2) else [tuple(atom for axis in outer for atom in axis)]
    name = call.assembly.placed(value, [channels, *places])
    size = call.assembly.shape(name)[1:]
    pool: Operation = GlobalAvgPool()
    if is_max:
        pool = MaxPool1d(size[0], size[0]) if len(size) == 1 else MaxPool2d((size[0], size[1]), (size[0], size[1]))
    added = call.assembly.add(pool, (name,))
    memory = [(at, value.extents[at]) for at in kept if value.axes[at]]
    found = laid(added, call.assembly.shape(added), memory, value.rank, value.batch, value.axes.index((-1,)))
    if keeps:
        return found
    axes_left = tuple(axis for at, axis in enumerate(found.axes) if at not in axes)
    return OnnxResult(found.name, found.shape, found.atoms, axes_left, found.batch)


def pad(call: OnnxCall) -> OnnxResult:
    value = call.value()
    mode = call.attribute("mode", "constant")
    call.expect("mode", mode, "constant", *BORDERS)
    call.expect("value", call.number("value", 2, 0.0), 0.0)
    pads = call.integers("pads", 1) or call.integers("paddings") or []
    axes = call.integers("axes", 3) or list(range(value.rank))
    if len(pads) != 2 * len(axes):
        raise GraphError(f"pads={pads}; expected {2 * len(axes)} integers")
    around = {value.axis(at): (pads[i], pads[i + len(axes)]) for i, at in enumerate(axes)}
    if not any(map(any, around.values())):
        return value
    wanted = [at for at, pair in around.items() if any(pair)]
    if min(min(pair) for pair in around.values()) < 0 or value.rank not in (3, 4) or min(wanted) < 2:
        raise GraphError(f"pads={pads} of {value}; expected cells around planes or sequences")
    pairs = [around.get(at, (0, 0)) for at in range(2, value.rank)]
    name = cells_around(call, channels_first(call, value, as_planes=True), pairs, BORDERS.get(mode, ZeroPad2d))
    shape = call.assembly.shape(name)
    return laid(
        name, shape, [(1, shape[0]), *zip(range(2, value.rank), shape[4 - value.rank + 1 :])], value.rank, value.batch
    )


def resize(call: OnnxCall) -> OnnxResult:
    """Read a Resize or Upsample that repeats each cell or interpolates linearly."""
    value = call.value()
    if value.rank not in (3, 4):
        raise GraphError(f"input {value}; expected planes or sequences")
    if call.attribute("mode", "nearest") == "linear":
        return interpolate(call, value)
    call.expect("mode", call.attribute("mode", "nearest"), "nearest", "linear")
    factors = _factors(call, value)
    if factors[:2] != [1, 1] or not all(_is_repeated(call, size, times) for size, times in zip(value.extents, factors)):
        raise GraphError(f"factors {factors}; expected each cell of a plane repeated")
    if all(times == 1 for times in factors):
        return value
    scale = (factors[2], factors[3]) if value.rank == 4 else (1, factors[2])
    added = call.assembly.add(Upsample(scale), (channels_first(call, value),))
    return standard(added, call.assembly.shape(added), value.batch)


def _factors(call: OnnxCall, value: OnnxResult) -> list[int]:
    """Return the whole factor of each axis. Raises GraphError for a factor that is not whole."""
    is_resize = call.node.operator == "Resize" and call.opset >= 11
    at = 2 if is_resize else 1
    if call.has(at) and call.constant(at).array.size:
        found = call.constant(at).array.ravel().tolist()
    elif is_resize and call.has(3):
        found = [size / own for size, own in zip(call.constant(3).array.ravel().tolist(), value.extents, strict=False)]
    else:
        found = call.attribute("scales", [])
    axes = call.integers("axes") or list(range(value.rank))
    if len(found) != len(axes):
        raise GraphError(f"factors {found!r:.80}; expected one for each of {len(axes)} axes")
    whole = [1] * value.rank
    for axis, factor in zip(axes, found, strict=True):
        if not math.isfinite(factor) or factor < 1 or factor != int(factor):
            raise GraphError(f"factor {factor} of axis {axis}; expected a whole number")
        whole[value.axis(axis)] = int(factor)
    return whole


def _is_repeated(call: OnnxCall, size: int, times: int) -> bool:
    """Return whether the nearest cell of each new cell is the cell that it repeats."""
    if times == 1:
        return True
    how = call.attribute("coordinate_transformation_mode", "half_pixel" if call.opset >= 11 else "asymmetric")
    rounding = call.attribute("nearest_mode", "round_prefer_floor" if call.opset >= 11 else "floor")
    if size * times > LONGEST_RESIZED:
        raise GraphError(f"{size} cells, each {times} times; the limit is {LONGEST_RESIZED} cells")
    new = np.arange(size * times, dtype=np.float64)
    shift = {"asymmetric": 0.0, "half_pixel": 0.5, "pytorch_half_pixel": 0.5}.get(how)
    rounds: Callable[[np.ndarray], np.ndarray] | None = ROUNDINGS.get(rounding)
    if shift is None or rounds is None:
        found = f"coordinate_transformation_mode={how!r}, nearest_mode={rounding!r}"
        raise GraphError(f"{found}; expected 'asymmetric' and 'floor'")
    old = np.clip(rounds((new + shift) / times - shift), 0, size - 1)
    return bool((old == new // times).all())
