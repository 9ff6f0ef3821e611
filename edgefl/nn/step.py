"""What a traced call means as graph operations, and how torch's arguments are read. The tables are in layers.py and
functions.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.fx import Node as Traced

from edgefl.errors import GraphError
from edgefl.graph.operations import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AnyDropout,
    AvgPool1d,
    AvgPool2d,
    GlobalAvgPool,
    MaxPool1d,
    MaxPool2d,
    Operation,
    Pair,
    Upsample,
)


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
    """Nothing where nothing is dropped."""
    return (kind(float(p)),) if p else ()


def max_pool_line(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation:  # fmt: skip
    expect("dilation", single(dilation), 1)
    expect("return_indices", return_indices, False)
    return MaxPool1d(*map(single, (kernel_size, stride or kernel_size, padding)), bool(ceil_mode))


def avg_pool_line(
    kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Operation:
    window = map(single, (kernel_size, stride or kernel_size, padding))
    return AvgPool1d(*window, count_include_pad, bool(ceil_mode))


def adaptive_pool_line(output_size: Any) -> Operation:
    found = single(output_size)
    return GlobalAvgPool() if found == 1 else AdaptiveAvgPool1d(found)


def single(value: Any) -> int:
    """torch's int or sequence of one."""
    return int(value if isinstance(value, int) else value[0])


def upsample(size: Any, scale_factor: Any, mode: str, align_corners: Any = None) -> Operation:
    expect("mode", mode, "nearest")
    expect("size", size, None)
    expect("align_corners", align_corners, None)
    factors = tuple(scale_factor) if isinstance(scale_factor, tuple | list) else (scale_factor, scale_factor)
    if any(not float(factor).is_integer() for factor in factors):
        raise GraphError(f"scale_factor={scale_factor!r}; expected whole numbers")
    return Upsample((int(factors[0]), int(factors[1])))
