"""The meaning of a traced call as graph operations, and the reading of torch's arguments.

The tables are in module_table.py and function_table.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.fx import Node as Traced

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AnyDropout,
    AvgPool1d,
    AvgPool2d,
    BorderPad,
    CircularPad2d,
    GlobalAvgPool,
    Interpolate,
    MaxPool1d,
    MaxPool2d,
    Operation,
    Pair,
    ReflectionPad2d,
    ReplicationPad2d,
    Shape,
    Upsample,
)
from edgefl.models.graph.operations.pool import LARGEST_WINDOW
from edgefl.torch.axis_order import Layout

Fitting = Callable[[Shape], tuple[Operation, ...]]  # returns the operations for an input of a shape


class ModuleSemantics(NamedTuple):
    """The meaning of a module that its operations alone do not tell.

    ops      operations in order
    wants    axes with which the first operation reads its inputs. None: the axes that axis_order.py tells
    gives    axes of the result. None: the axes of the inputs
    results  for each of several results, the operations that follow `ops`. None: the module returns one result
    """

    ops: tuple[Operation, ...] | Fitting
    wants: Layout | None = None
    gives: Layout | None = None
    results: tuple[tuple[Operation, ...], ...] | None = None


class Step(NamedTuple):
    """The operations of a call.

    ops         operations in order. Without operations the result is the input itself
    inputs      traced inputs
    overwrites  whether the call overwrites the first input
    """

    ops: tuple[Operation, ...] | Fitting
    inputs: tuple[Traced, ...]
    overwrites: bool = False


def expect(setting: str, value: object, *accepted: object) -> None:
    """Raise GraphError unless `value` is one of `accepted`."""
    if value not in accepted:
        raise GraphError(f"{setting}={value!r}; expected {' or '.join(repr(item) for item in accepted)}")


def described(node: Traced, modules: dict[str, nn.Module]) -> str:
    """Return the words for a traced node that a reader of the module's code knows."""
    if node.op == "call_module":
        return f"module {node.target!r} ({type(modules[str(node.target)]).__name__})"
    if node.op == "call_function":
        return f"function {torch.overrides.resolve_name(node.target) or node.name}"
    return {"call_method": "method ", "get_attr": "attribute ", "placeholder": "input "}[node.op] + repr(node.target)


def refused(message: str, *sources: Any) -> None:
    """Stand in a graph for a call that edgefl cannot take. The converter raises the message."""
    raise GraphError(message)


def called(entry: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Return the meaning that an entry of a table gives to a call with torch's arguments."""
    try:
        return entry(*args, **settings)
    except TypeError as error:
        raise GraphError(f"arguments that edgefl does not know: {error}") from None


def computed(function: Callable[..., Any], *numbers: Any) -> int:
    """Return the result of arithmetic with extents."""
    if any(not isinstance(number, int) for number in numbers):
        raise GraphError(
            f"arithmetic with {', '.join(map(str, numbers))}; expected extents of spatial axes or channels"
        )
    return int(function(*numbers))


def reads_shape(node: Traced) -> bool:
    """Return whether a call reads the shape of a value."""
    return node.target == "size" or (node.target is getattr and node.args[1:] == ("shape",))


def refuse_later_use(source: Traced, node: Traced) -> None:
    """Raise GraphError if a later node reads a value that `node` overwrites. A graph has values, not memory."""
    order = list(node.graph.nodes)
    later = order[order.index(node) + 1 :]
    for user in later:
        if user in source.users and not reads_shape(user):
            raise GraphError(f"in place, and {user} reads the overwritten {source}; expected inplace=False")


def is_end(node: Traced) -> bool:
    """Return whether only the output of the module reads the node."""
    return all(user.op == "output" for user in node.users)


def pair(value: Any) -> Pair:
    """Return torch's int, or its sequence of one or two ints, as a pair."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return (values[0], values[-1])


def max_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation:  # fmt: skip
    expect("dilation", pair(dilation), (1, 1))
    expect("return_indices", return_indices, False)
    return MaxPool2d(pair(kernel_size), pair(stride or kernel_size), pair(padding), bool(ceil_mode))


def avg_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Operation:  # fmt: skip
    expect("divisor_override", divisor_override, None)
    return AvgPool2d(pair(kernel_size), pair(stride or kernel_size), pair(padding), count_include_pad, bool(ceil_mode))


def adaptive_pool(output_size: Any) -> Operation:
    found = pair(output_size)
    if None in found:
        raise GraphError(f"output_size={output_size!r}; expected numbers")
    return GlobalAvgPool() if found == (1, 1) else AdaptiveAvgPool2d(found)


def dropout(kind: type[AnyDropout], p: Any) -> tuple[Operation, ...]:
    """Return the dropout with probability p, or no operation if p is 0."""
    return (kind(float(p)),) if p else ()


def max_pool_sequence(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation:  # fmt: skip
    expect("dilation", single(dilation), 1)
    expect("return_indices", return_indices, False)
    return MaxPool1d(single(kernel_size), single(stride or kernel_size), single(padding), bool(ceil_mode))


def adaptive_max_pool(output_size: Any, return_indices: bool = False) -> Fitting:
    """Return the function that gives the max pools for planes or sequences of a shape that output_size divides.

    Windows of more cells than one pool takes are divided into several pools.
    """
    expect("return_indices", return_indices, False)
    sizes = tuple(output_size) if isinstance(output_size, tuple | list) else (output_size, output_size)

    def fit(shape: Shape) -> tuple[Operation, ...]:
        height, width = (1, *shape[1:])[-2:]
        parts = (sizes[0] or height if len(shape) == 3 else 1, sizes[-1] or width)
        if height % parts[0] or width % parts[1]:
            raise GraphError(f"output_size={output_size!r} of {shape[1:]}; expected divisors")
        pools = _max_pools((height // parts[0], width // parts[1]))
        if len(shape) == 3:
            return pools
        return tuple(MaxPool1d(pool.kernel_size[1], pool.stride[1]) for pool in pools)

    return fit


def _max_pools(window: Pair) -> tuple[MaxPool2d, ...]:
    """Return the pools for the largest value of a window: one pool, or pools along rows and then along columns."""
    if math.prod(window) <= LARGEST_WINDOW:
        return (MaxPool2d(window, window),)
    rows = [MaxPool2d((1, part), (1, part)) for part in _parts(window[1])]
    return (*rows, *(MaxPool2d((part, 1), (part, 1)) for part in _parts(window[0])))


def _parts(cells: int) -> list[int]:
    """Return factors of a number, each of which a window can have. Raises GraphError if there are no such factors."""
    if cells <= LARGEST_WINDOW:
        return [cells] if cells > 1 else []
    part = max((n for n in range(2, LARGEST_WINDOW + 1) if cells % n == 0), default=0)
    if not part:
        raise GraphError(f"a window of {cells} cells along an axis; expected factors of at most {LARGEST_WINDOW}")
    return [part, *_parts(cells // part)]


def avg_pool_sequence(
    kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Operation:
    window = single(kernel_size), single(stride or kernel_size), single(padding)
    return AvgPool1d(*window, count_include_pad, bool(ceil_mode))


def adaptive_pool_sequence(output_size: Any) -> Operation:
    found = single(output_size)
    return GlobalAvgPool() if found == 1 else AdaptiveAvgPool1d(found)


def single(value: Any) -> int:
    """Return torch's int, or its sequence of one int, as an int."""
    return int(value if isinstance(value, int) else value[0])


def interpolation(
    size: Any, scale_factor: Any, mode: str, align_corners: Any = None, recompute_scale_factor: Any = None
) -> tuple[Operation, ...] | Fitting:
    """Return the operation of torch.nn.functional.interpolate, which may depend on the shape of the input."""
    if mode not in ("bilinear", "linear"):
        return (upsample(size, scale_factor, mode, align_corners),)

    def fitting(shape: Shape) -> tuple[Operation, ...]:
        places = shape[1:]
        if len(places) != (2 if mode == "bilinear" else 1):
            raise GraphError(f"mode={mode!r} of an input of shape {shape}; expected {MODE_OF_PLACES[len(places)]!r}")
        is_exact = align_corners or recompute_scale_factor
        found = _each(size, places) if scale_factor is None else _times(places, _each(scale_factor, places), is_exact)
        return (Interpolate((1, *found)[-2:], bool(align_corners)),)

    return fitting


MODE_OF_PLACES = {0: "nearest", 1: "linear", 2: "bilinear"}


def _each(value: Any, places: Shape) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * len(places)


def _times(places: Shape, factors: tuple[Any, ...], is_exact: Any) -> Shape:
    """Return the places times the factors, rounded down. Raises GraphError where the rest would shift the cells."""
    for cells, factor in zip(places, factors, strict=True):
        if not is_exact and not float(cells * factor).is_integer():
            whole = int(cells * factor)
            raise GraphError(f"scale_factor={factor!r} of {cells} cells; expected whole cells: give size={whole}")
    return tuple(int(cells * factor) for cells, factor in zip(places, factors, strict=True))


def border_pad(pad: Any, mode: str) -> Operation:
    """Return the operation of torch.nn.functional.pad for the modes that continue a plane or a sequence."""
    if len(pad) not in (2, 4) or min(pad) < 0:
        raise GraphError(f"pad={tuple(pad)!r}; expected 2 or 4 numbers of at least 0")
    left, right, top, bottom = (*pad, *(0,) * (4 - len(pad)))
    return BORDER_PADS[mode]((left, right, top, bottom))


BORDER_PADS: dict[str, type[BorderPad]] = {
    "reflect": ReflectionPad2d,
    "replicate": ReplicationPad2d,
    "circular": CircularPad2d,
}


def upsample(size: Any, scale_factor: Any, mode: str, align_corners: Any = None) -> Operation:
    expect("mode", mode, "nearest", "linear", "bilinear")
    expect("size", size, None)
    expect("align_corners", align_corners, None)
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor, scale_factor)
    if any(not float(factor).is_integer() for factor in factors):
        raise GraphError(f"scale_factor={scale_factor!r}; expected whole numbers")
    return Upsample((int(factors[0]), int(factors[1])))
