"""The table SHAPING: the graph operations for torch's functions that change axes, shapes or positions.

Nothing is traced here. An entry gets a value and torch's own further arguments. It says which axes the value must have,
which operations follow, and how torch's axes lie over the axes of the result. If the value has torch's order of axes,
or the channels last, most entries only change the order or the view. An entry raises GraphError if a graph has no such
result.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT
from edgefl.models.graph.operations import (
    AvgPool2d,
    Flatten,
    FlattenPlaces,
    Flip,
    GlobalAvgPool,
    MaxPool1d,
    MaxPool2d,
    Operation,
    Reshape,
    Slice,
)
from edgefl.torch.axis_order import BATCH, Axes, Extents, Value, first, last
from edgefl.torch.channel_ranges import range_of_channels, with_first
from edgefl.torch.traced_call import expect

MOST_EXTENTS = 3  # extents of a result, without the batch


class AxisConversion(NamedTuple):
    """Operations on a value that has the axes `wants`, and the axes of the result."""

    wants: Axes
    ops: tuple[Operation, ...]
    axes: Axes


def permute(value: Value, *dims: Any) -> AxisConversion:
    order = [_axis(value, dim) for dim in _together(dims)]
    if sorted(order) != list(range(len(value.axes))):
        raise GraphError(f"dims={tuple(order)} of {len(value.axes)} axes; expected each axis once")
    return _renamed(value, tuple(value.axes[dim] for dim in order))


def transpose(value: Value, dim0: int, dim1: int) -> AxisConversion:
    axes = list(value.axes)
    one, other = _axis(value, dim0), _axis(value, dim1)
    axes[one], axes[other] = axes[other], axes[one]
    return _renamed(value, tuple(axes))


def movedim(value: Value, source: Any, destination: Any) -> AxisConversion:
    sources, positions = ([_axis(value, dim) for dim in _listed(dims)] for dims in (source, destination))
    axes = [axis for dim, axis in enumerate(value.axes) if dim not in sources]
    for position, dim in sorted(zip(positions, sources, strict=True)):
        axes.insert(position, value.axes[dim])
    return _renamed(value, tuple(axes))


def reshape(value: Value, *shape: Any) -> AxisConversion:
    return reshaped(value, _complete(value, list(_together(shape))))


def flatten(value: Value, start_dim: int = 0, end_dim: int = -1) -> AxisConversion:
    start, end = _axis(value, start_dim), _axis(value, end_dim)
    merged = value.extents[start : end + 1]
    if BATCH in merged and len(merged) > 1:
        raise GraphError(f"start_dim={start_dim} merges the batch with other axes; expected start_dim=1 or more")
    return reshaped(value, (*value.extents[:start], _product(merged), *value.extents[end + 1 :]))


def unflatten(value: Value, dim: int, sizes: Any) -> AxisConversion:
    at, parts = _axis(value, dim), list(sizes)
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = int(value.extents[at]) // -math.prod(parts)
    return reshaped(value, (*value.extents[:at], *parts, *value.extents[at + 1 :]))


def flip(value: Value, *dims: Any) -> AxisConversion:
    found = [_axis(value, dim) for dim in _together(dims)]
    if len(found) != 1 or value.axes[found[0]] == 0 or len(value.shape) == 1:
        raise GraphError(f"dims={tuple(found)}; expected one axis of a sequence or of planes")
    axis, place = value.axes[found[0]], len(value.shape)
    turned = tuple({axis: place, place: axis}.get(each, each) for each in value.axes)
    return AxisConversion(turned, (Flip(),), turned)


def squeeze(value: Value, dim: Any = None) -> AxisConversion:
    dims = range(len(value.axes)) if dim is None else [_axis(value, each) for each in _listed(dim)]
    gone = [each for each in dims if value.extents[each] == 1]
    if gone and len(value.shape) == 2 and [value.axes[each] for each in gone] == [2]:
        return _part(value, gone[0], 0)  # the slice works wherever the batch is
    return reshaped(value, tuple(size for at, size in enumerate(value.extents) if at not in gone))


def leaves_batch_alone(target: Any, *args: Any, **settings: Any) -> bool:
    """Return whether a call makes [B] of [B, 1], as models of one output do at their end."""
    if target in ("squeeze", torch.squeeze):
        return settings.get("dim", args[0] if args else None) in (None, 1, -1)
    if target in ("view", "reshape", torch.reshape):
        return tuple(_together(args)) == (-1,)
    return target in ("flatten", torch.flatten) and args in ((), (0,)) and not settings


def unsqueeze(value: Value, dim: int) -> AxisConversion:
    at = dim if dim >= 0 else dim + len(value.axes) + 1
    return reshaped(value, (*value.extents[:at], 1, *value.extents[at:]))


def reshaped(value: Value, target: Extents) -> AxisConversion:
    """Return the conversion of a value to these extents, in torch's order."""
    found = value.extents
    if target == found:
        return _renamed(value, value.axes)
    if found[0] != BATCH or target[:1] != (BATCH,) or target.count(BATCH) > 1:
        raise GraphError(f"sizes {_shown(target)} of {_shown(found)}; expected the batch first in both")
    source, sizes = tuple(map(int, found[1:])), tuple(map(int, target[1:]))
    if math.prod(source) != math.prod(sizes) or not 1 <= len(sizes) <= MOST_EXTENTS:
        expected = f"{math.prod(source)} values in 1 to {MOST_EXTENTS} extents after the batch"
        raise GraphError(f"sizes {_shown(target)} of {_shown(found)}; expected {expected}")
    return _with_channels_last(value, source, sizes) or _as_torch_has_it(value, sizes)


def _with_channels_last(value: Value, source: tuple[int, ...], sizes: tuple[int, ...]) -> AxisConversion | None:
    """Return the conversion where the channels stay apart from the positions, or all values become features.

    Return None for other conversions.
    """
    rank = len(sizes) + 1
    if value.axes != last(len(value.axes)):
        return None
    if len(sizes) > 1 and sizes[-1] == source[-1] and (len(source) > 1 or sizes[:-1] == (1,)):
        return AxisConversion(value.axes, (Reshape(sizes[:-1]),), last(rank))
    if len(sizes) == 1 and len(source) > 1:
        return AxisConversion(value.axes, (Flatten() if math.prod(source[:-1]) == 1 else FlattenPlaces(),), first(rank))
    return None


def _as_torch_has_it(value: Value, sizes: tuple[int, ...]) -> AxisConversion:
    ops = (Flatten(),) if len(sizes) == 1 else (Reshape(sizes[1:]),)
    return AxisConversion(first(len(value.axes)), ops, first(len(sizes) + 1))


def mean(value: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> AxisConversion:
    """Return the conversion for the mean over all positions, or over rows or columns of planes."""
    expect("dtype", dtype, None)
    value, over = _positions(value, dim)
    if len(over) == len(value.shape) - 1:
        return _pooled(value, GlobalAvgPool(), over, keepdim)
    height, width = (size if axis in over else 1 for axis, size in enumerate(value.shape[1:], start=2))
    return _pooled(value, AvgPool2d((height, width), (height, width)), over, keepdim)


def maximum(value: Value, dim: Any = (), keepdim: bool = False) -> AxisConversion:
    """Return the conversion for the largest value over all positions."""
    value, over = _positions(value, dim)
    if len(over) < len(value.shape) - 1:
        raise GraphError(f"dim={dim!r} of {_shown(value.extents)}; expected all spatial axes")
    return _pooled(value, _whole_pool(*value.shape[1:]), over, keepdim)


def _whole_pool(height: int, width: int | None = None) -> Operation:
    return MaxPool1d(height, height) if width is None else MaxPool2d((height, width), (height, width))


def _positions(value: Value, dim: Any) -> tuple[Value, set[int]]:
    """Return the value and the graph's axes for torch's axes `dim`, which must all be positions.

    If they are the channels of a sequence, the value has its channels and positions exchanged.
    """
    over = {value.axes[_axis(value, each)] for each in _listed(dim)} if dim is not None else {0}
    if over == {1} and len(value.shape) == 2:
        value, over = _exchanged(value), {2}
    if min(over, default=0) < 2:
        raise GraphError(
            f"dim={dim!r} of {_shown(value.extents)}; expected spatial axes, neither the batch nor the channels"
        )
    return value, over


def _exchanged(line: Value) -> Value:
    """Return a sequence whose positions become its channels."""
    axes = tuple({1: 2, 2: 1}.get(axis, axis) for axis in line.axes)
    return Value(line.name, line.shape[::-1], axes)


def _pooled(value: Value, pool: Operation, over: set[int], keepdim: bool) -> AxisConversion:
    if keepdim:
        return AxisConversion(value.axes, (pool,), value.axes)
    positions = tuple(size for axis, size in enumerate(value.shape[1:], start=2) if axis not in over)
    kept = [axis for axis in value.axes if axis not in over]
    axes = tuple(sorted(kept).index(axis) for axis in kept)
    return AxisConversion(value.axes, (pool, Reshape(positions) if positions else Flatten()), axes)


def item(value: Value, index: Any) -> AxisConversion:
    """Return the conversion for value[index].

    The index takes whole axes, adds one axis of length 1, or takes one position or a run of positions of a sequence.
    """
    wanted = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in wanted:
        at = wanted.index(Ellipsis)
        rest = len(value.axes) - sum(part is not None for part in wanted) + 1
        wanted[at : at + 1] = [slice(None)] * rest
    if None in wanted:
        if any(part is not None and part != slice(None) for part in wanted):
            raise GraphError(f"index {index!r}; expected None only together with whole axes")
        return unsqueeze(value, wanted.index(None))
    parts = [(dim, part) for dim, part in enumerate(wanted) if not _is_whole(part, value.extents[dim])]
    if not parts:
        return _renamed(value, value.axes)
    of_axis = value.axes[parts[0][0]]
    if (
        len(parts) == 1
        and len(value.shape) in (1, 3)
        and (of_axis == 1 or (of_axis and isinstance(parts[0][1], slice)))
    ):
        return _range_of_channels(with_first(value, parts[0][0]), *parts[0])
    if len(parts) > 1 or len(value.shape) != 2 or value.axes[parts[0][0]] == 0:
        raise GraphError(
            f"index {index!r} of {_shown(value.extents)}; expected one step of a sequence, or a range of steps"
        )
    return _part(value, *parts[0])


def _is_whole(part: Any, extent: int | str) -> bool:
    if not isinstance(part, slice):
        return False
    return part.start in (None, 0) and part.stop in (None, extent) and part.step in (None, 1)


def _part(value: Value, dim: int, part: Any) -> AxisConversion:
    """Return the conversion that takes positions of a sequence.

    If torch's axis is the graph's channels, channels and positions are exchanged first.
    """
    wants = _exchanged(value).axes if value.axes[dim] == 1 else value.axes
    length = int(value.extents[dim])
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        if step != 1 or stop <= start:
            raise GraphError(f"index {part!r}; expected consecutive steps")
        return AxisConversion(wants, (Slice(start, stop - start),), wants)
    if not isinstance(part, int) or not -length <= part < length:
        raise GraphError(f"index {part!r}; expected a number below {length}")
    axes = tuple(axis for axis in wants if axis != 2)
    return AxisConversion(wants, (*(() if length == 1 else (Slice(part % length, 1),)), Flatten()), axes)


def _range_of_channels(value: Value, dim: int, part: Any) -> AxisConversion:
    """Return the conversion that takes neighbouring features, or neighbouring channels of planes.

    The values of channels lie one after another, so they are positions of a sequence of one channel.
    """
    count, places = value.shape[0], value.shape[1:]
    if isinstance(part, int) and not places and -count <= part < count:
        alone = _range_of_channels(value, dim, slice(part % count, part % count + 1))
        return alone._replace(axes=(0,))
    return AxisConversion(value.axes, range_of_channels(value.shape, part), value.axes)


def ids(value: Value, *args: Any) -> AxisConversion:
    """Return the conversion of the input to integers. Raises GraphError for other values."""
    if value.name != INPUT:
        raise GraphError("integers from a result; expected integers from the input, for an Embedding")
    return _renamed(value, value.axes)


def select(value: Value, dim: int, index: int) -> AxisConversion:
    return item(value, (*(slice(None),) * _axis(value, dim), index))


def narrow(value: Value, dim: int, start: int, length: int) -> AxisConversion:
    return item(value, (*(slice(None),) * _axis(value, dim), slice(start, start + length)))


def _renamed(value: Value, axes: Axes) -> AxisConversion:
    return AxisConversion(value.axes, (), axes)


def _axis(value: Value, dim: int) -> int:
    """Return a torch axis, counted from the front."""
    if not isinstance(dim, int) or not -len(value.axes) <= dim < len(value.axes):
        raise GraphError(f"dim={dim!r}; expected one of {len(value.axes)} axes")
    return dim % len(value.axes)


def _together(dims: tuple[Any, ...]) -> Sequence[Any]:
    """Return the dims as one sequence, whether torch got one sequence or several arguments."""
    return dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims


def _listed(dims: Any) -> Sequence[Any]:
    return dims if isinstance(dims, tuple | list) else (dims,)


def _complete(value: Value, sizes: list[Any]) -> Extents:
    """Return the sizes with -1 replaced by the size that it stands for."""
    known, found = [size for size in sizes if size != -1], list(sizes)
    if len(sizes) - len(known) > 1 or any(not isinstance(size, int) and size != BATCH for size in known):
        raise GraphError(f"sizes {sizes}; expected numbers, x.size(0), and -1 once")
    if -1 in found:
        rest = math.prod(size for size in value.shape) // max(math.prod(size for size in known if size != BATCH), 1)
        found[found.index(-1)] = rest if BATCH in known else BATCH
    return tuple(found)


def _product(extents: Extents) -> int | str:
    return extents[0] if len(extents) == 1 else math.prod(map(int, extents))


def _shown(extents: Extents) -> str:
    return f"[{', '.join('batch' if extent == BATCH else str(extent) for extent in extents)}]"


MAXIMA = ("max", torch.max)
"""Functions with two results: the largest values, and their positions."""

SHAPING: dict[Any, Callable[..., AxisConversion]] = {
    **dict.fromkeys(("permute", torch.permute), permute),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", torch.transpose, torch.swapaxes, torch.swapdims), transpose),
    **dict.fromkeys(("movedim", "moveaxis", torch.movedim, torch.moveaxis), movedim),
    **dict.fromkeys(("view", "reshape", torch.reshape), reshape),
    **dict.fromkeys(("flatten", torch.flatten), flatten),
    **dict.fromkeys(("unflatten", torch.unflatten), unflatten),
    **dict.fromkeys(("flip", torch.flip), flip),
    **dict.fromkeys(("squeeze", torch.squeeze), squeeze),
    **dict.fromkeys(("unsqueeze", torch.unsqueeze), unsqueeze),
    **dict.fromkeys(("mean", torch.mean), mean),
    **dict.fromkeys(("amax", torch.amax), maximum),
    **dict.fromkeys(MAXIMA, maximum),
    operator.getitem: item,
    **dict.fromkeys(("long", "int"), ids),
    **dict.fromkeys(("select", torch.select), select),
    **dict.fromkeys(("narrow", torch.narrow), narrow),
}
"""The conversions of operations on shapes, by torch's function or by the name of a method."""
