"""What a traced call means as graph operations, and how torch's arguments are read. The tables are in layers.py and
functions.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.fx import Node as Traced

from edgefl.errors import GraphError
from edgefl.graph.operations import AdaptiveAvgPool2d, AvgPool2d, GlobalAvgPool, MaxPool2d, Operation, Pair, Upsample
from edgefl.nn.axes import Layout


class Means(NamedTuple):
    """What a module means, where its operations alone do not say it.

    ops      in order
    wants    the axes that the first of them reads its inputs with; None: as axes.py says of it
    gives    the axes of the result; None: as its inputs
    results  of a module that returns several: what follows `ops` to make each of them. None: it returns one
    """

    ops: tuple[Operation, ...]
    wants: Layout | None = None
    gives: Layout | None = None
    results: tuple[tuple[Operation, ...], ...] | None = None


class Step(NamedTuple):
    """Operations in order (none: the input itself), the traced inputs, and whether the first one is overwritten."""

    ops: tuple[Operation, ...]
    inputs: tuple[Traced, ...]
    overwrites: bool = False


def expect(setting: str, value: object, *accepted: object) -> None:
    """Raise GraphError unless `value` is one of `accepted`."""
    if value not in accepted:
        raise GraphError(f"{setting}={value!r}; expected {' or '.join(repr(item) for item in accepted)}")


def pair(value: Any) -> Pair:
    """torch's int or sequence of one or two ints as a pair."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return (values[0], values[-1])


def max_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation:  # fmt: skip
    expect("dilation", pair(dilation), (1, 1))
    expect("ceil_mode", ceil_mode, False)
    expect("return_indices", return_indices, False)
    return MaxPool2d(pair(kernel_size), pair(stride or kernel_size), pair(padding))


def avg_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Operation:  # fmt: skip
    expect("ceil_mode", ceil_mode, False)
    expect("divisor_override", divisor_override, None)
    return AvgPool2d(pair(kernel_size), pair(stride or kernel_size), pair(padding), count_include_pad)


def adaptive_pool(output_size: Any) -> Operation:
    found = pair(output_size)
    if None in found:
        raise GraphError(f"output_size={output_size!r}; expected numbers")
    return GlobalAvgPool() if found == (1, 1) else AdaptiveAvgPool2d(found)


def upsample(size: Any, scale_factor: Any, mode: str, align_corners: Any = None) -> Operation:
    expect("mode", mode, "nearest")
    expect("size", size, None)
    expect("align_corners", align_corners, None)
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor, scale_factor)
    if any(not float(factor).is_integer() for factor in factors):
        raise GraphError(f"scale_factor={scale_factor!r}; expected whole numbers")
    return Upsample((int(factors[0]), int(factors[1])))
