"""What each torch module, function and method that edgefl can take means as graph operations.

Three tables: MODULES by module type, FUNCTIONS by traced function, METHODS by method name. Each entry has torch's own
signature and returns a Step, or raises GraphError naming the argument that edgefl has no representation for.
Reshaping needs the shapes of a trace, so trace.py has it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.fx import Node as Traced
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.graph.operations import (
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Operation,
    Pair,
    ReLU,
)
from edgefl.nn.module import Sum


class Step(NamedTuple):
    """Operations in order (none: the input itself), the traced inputs, and whether the first one is overwritten."""

    ops: tuple[Operation, ...]
    inputs: tuple[Traced, ...]
    overwrites: bool = False


def expect(setting: str, value: object, *accepted: object) -> None:
    """Raise GraphError unless `value` is one of `accepted`."""
    if value not in accepted:
        raise GraphError(f"{setting}={value!r}; expected {' or '.join(repr(item) for item in accepted)}")


def _pair(value: Any) -> Pair:
    """torch's int or sequence of one or two ints as a pair."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return (values[0], values[-1])


# ---- modules


def _conv(module: nn.Conv2d) -> tuple[Operation, ...]:
    expect("padding_mode", module.padding_mode, "zeros")
    if isinstance(module.padding, str):
        raise GraphError(f"padding={module.padding!r}; expected integers")
    geometry = (_pair(module.kernel_size), _pair(module.stride), _pair(module.padding), _pair(module.dilation))
    bias = module.bias is not None
    return (Conv2d(module.in_channels, module.out_channels, *geometry, groups=module.groups, bias=bias),)


def _linear(module: nn.Linear) -> tuple[Operation, ...]:
    return (Linear(module.in_features, module.out_features, module.bias is not None),)


def _batch_norm(module: nn.BatchNorm2d) -> tuple[Operation, ...]:
    expect("affine", module.affine, True)
    expect("track_running_stats", module.track_running_stats, True)
    if module.momentum is None:
        raise GraphError("momentum=None; expected a float")
    return (BatchNorm2d(module.num_features, float(module.eps), float(module.momentum)),)


def _group_norm(module: nn.GroupNorm) -> tuple[Operation, ...]:
    expect("affine", module.affine, True)
    return (GroupNorm(module.num_groups, module.num_channels, float(module.eps)),)


def _dropout(module: nn.Dropout | nn.Dropout2d) -> tuple[Operation, ...]:
    expect("p", module.p, 0)
    return ()


def _flatten_module(module: nn.Flatten) -> tuple[Operation, ...]:
    expect("start_dim", module.start_dim, 1)
    expect("end_dim", module.end_dim, -1)
    return (Flatten(),)


def _max_pool_module(module: nn.MaxPool2d) -> tuple[Operation, ...]:
    return (_max_pool(module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode,
                      module.return_indices),)  # fmt: skip


def _avg_pool_module(module: nn.AvgPool2d) -> tuple[Operation, ...]:
    return (_avg_pool(module.kernel_size, module.stride, module.padding, module.ceil_mode, module.count_include_pad,
                      module.divisor_override),)  # fmt: skip


MODULES: dict[type[nn.Module], Callable[[Any], tuple[Operation, ...]]] = {
    nn.Conv2d: _conv,
    nn.Linear: _linear,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.ReLU: lambda module: (ReLU(),),
    nn.LeakyReLU: lambda module: (LeakyReLU(float(module.negative_slope)),),
    nn.MaxPool2d: _max_pool_module,
    nn.AvgPool2d: _avg_pool_module,
    nn.AdaptiveAvgPool2d: lambda module: (_adaptive_pool(module.output_size),),
    nn.Flatten: _flatten_module,
    nn.Identity: lambda module: (),
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    Sum: lambda module: (Add(),),
}


# ---- functions and methods


def _max_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation:  # fmt: skip
    expect("dilation", _pair(dilation), (1, 1))
    expect("ceil_mode", ceil_mode, False)
    expect("return_indices", return_indices, False)
    return MaxPool2d(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding))


def _avg_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Operation:  # fmt: skip
    expect("ceil_mode", ceil_mode, False)
    expect("divisor_override", divisor_override, None)
    return AvgPool2d(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding), count_include_pad)


def _adaptive_pool(output_size: Any) -> Operation:
    expect("output_size", output_size, 1, (1, 1), [1, 1])
    return GlobalAvgPool()


def _relu(input: Traced, inplace: bool = False) -> Step:
    return Step((ReLU(),), (input,), inplace)


def _relu_in_place(input: Traced) -> Step:
    return Step((ReLU(),), (input,), True)


def _leaky_relu(input: Traced, negative_slope: float = 0.01, inplace: bool = False) -> Step:
    return Step((LeakyReLU(float(negative_slope)),), (input,), inplace)


def _leaky_relu_in_place(input: Traced, negative_slope: float = 0.01) -> Step:
    return _leaky_relu(input, negative_slope, inplace=True)


def _add(input: Any, other: Any, *, alpha: Any = 1) -> Step:
    expect("alpha", alpha, 1)
    for term in (input, other):
        if not isinstance(term, Traced):
            raise GraphError(f"summand {term!r}; expected the result of an operation")
    return Step((Add(),), (input, other))


def _add_in_place(input: Any, other: Any, *, alpha: Any = 1) -> Step:
    return _add(input, other, alpha=alpha)._replace(overwrites=True)


def _flatten(input: Traced, start_dim: int = 0, end_dim: int = -1) -> Step:
    expect("start_dim", start_dim, 1)
    expect("end_dim", end_dim, -1)
    return Step((Flatten(),), (input,))


def _mean(input: Traced, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Step:
    """The mean over height and width; without keepdim its axes are flattened away."""
    dims = sorted(dim) if isinstance(dim, tuple | list) else dim
    expect("dim", dims, [2, 3], [-2, -1], [-1, 2], [-2, 3])
    expect("dtype", dtype, None)
    return Step((GlobalAvgPool(),) if keepdim else (GlobalAvgPool(), Flatten()), (input,))


def _identity(input: Traced) -> Step:
    return Step((), (input,))


FUNCTIONS: dict[Any, Callable[..., Step]] = {
    functional.relu: _relu,
    torch.relu: _relu,
    functional.relu_: _relu_in_place,
    torch.relu_: _relu_in_place,
    functional.leaky_relu: _leaky_relu,
    functional.leaky_relu_: _leaky_relu_in_place,
    operator.add: _add,
    operator.iadd: _add_in_place,
    torch.add: _add,
    torch.flatten: _flatten,
    torch.mean: _mean,
    functional.max_pool2d: lambda input, *args, **settings: Step((_max_pool(*args, **settings),), (input,)),
    torch.max_pool2d: lambda input, *args, **settings: Step((_max_pool(*args, **settings),), (input,)),
    functional.avg_pool2d: lambda input, *args, **settings: Step((_avg_pool(*args, **settings),), (input,)),
    functional.adaptive_avg_pool2d: lambda input, output_size: Step((_adaptive_pool(output_size),), (input,)),
}

METHODS: dict[str, Callable[..., Step]] = {
    "relu": _relu,
    "relu_": _relu_in_place,
    "add": _add,
    "add_": _add_in_place,
    "flatten": _flatten,
    "mean": _mean,
    "contiguous": _identity,
}
