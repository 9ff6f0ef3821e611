"""The tables FUNCTIONS and METHODS: the graph operations for each traced function and method that edgefl can take.

Entries have torch's own signatures. They return a Step, or raise GraphError that names the argument that edgefl cannot
represent. Functions that change axes, shapes or positions are in shape_table.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx import Node as Traced
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    ELU,
    FIXED_ACTIVATIONS,
    GELU,
    Add,
    AnyDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    GaussianNoise,
    LeakyReLU,
    Mul,
    Operation,
    ReLU,
    ReLU6,
    Sigmoid,
    Softplus,
    StochasticDepth,
    Tanh,
    ZeroPad2d,
)
from edgefl.torch.aten_random import gaussian_noise, stochastic_depth
from edgefl.torch.expression_calls import elementwise, expression_step
from edgefl.torch.module_table import MODULES
from edgefl.torch.traced_call import (
    BORDER_PADS,
    ModuleSemantics,
    Step,
    adaptive_max_pool,
    adaptive_pool,
    adaptive_pool_sequence,
    avg_pool,
    avg_pool_sequence,
    border_pad,
    dropout,
    expect,
    interpolation,
    max_pool,
    max_pool_sequence,
)


def _relu(input: Traced, inplace: bool = False) -> Step:
    return Step((ReLU(),), (input,), inplace)


def _relu_in_place(input: Traced) -> Step:
    return Step((ReLU(),), (input,), True)


def _leaky_relu(input: Traced, negative_slope: float = 0.01, inplace: bool = False) -> Step:
    return Step((LeakyReLU(float(negative_slope)),), (input,), inplace)


def _leaky_relu_in_place(input: Traced, negative_slope: float = 0.01) -> Step:
    return _leaky_relu(input, negative_slope, inplace=True)


def _elu(input: Traced, alpha: float = 1.0, inplace: bool = False) -> Step:
    return Step((ELU(float(alpha)),), (input,), inplace)


def _elu_in_place(input: Traced, alpha: float = 1.0) -> Step:
    return _elu(input, alpha, inplace=True)


def _add(input: Any, other: Any, *, alpha: Any = 1) -> Step:
    expect("alpha", alpha, 1)
    for term in (input, other):
        if not isinstance(term, Traced):
            raise GraphError(f"summand {term!r}; expected the result of an operation")
    return Step((Add(),), (input, other))


def _add_in_place(input: Any, other: Any, *, alpha: Any = 1) -> Step:
    return _add(input, other, alpha=alpha)._replace(overwrites=True)


def _activation(op: Operation) -> Callable[..., Step]:
    """Return an entry for an activation function without settings."""
    return lambda input, inplace=False: Step((op,), (input,), inplace)


def _gelu(input: Traced, approximate: str = "none") -> Step:
    return Step((GELU(approximate),), (input,))


def _softplus(input: Traced, beta: float = 1, threshold: float = 20) -> Step:
    return Step((Softplus(float(beta), float(threshold)),), (input,))


def _mul(input: Any, other: Any) -> Step:
    for factor in (input, other):
        if not isinstance(factor, Traced):
            raise GraphError(f"factor {factor!r}; expected the result of an operation")
    return Step((Mul(),), (input, other))


def _pad(input: Traced, pad: Any, mode: str = "constant", value: Any = None) -> Step:
    if mode in BORDER_PADS:
        return Step((border_pad(pad, mode),), (input,))
    expect("mode", mode, "constant", *BORDER_PADS)
    expect("value", value, None, 0, 0.0)
    if len(pad) not in (2, 4) or min(pad) < 0:
        raise GraphError(f"pad={pad!r}; expected 2 or 4 numbers of at least 0")
    return Step((ZeroPad2d((*pad, *(0,) * (4 - len(pad)))),), (input,))


def _interpolate(
    input: Traced, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
    recompute_scale_factor: Any = None, antialias: bool = False,
) -> Step:  # fmt: skip
    expect("antialias", antialias, False)
    return Step(interpolation(size, scale_factor, mode, align_corners, recompute_scale_factor), (input,))


def _as_module(kind: type[nn.Module]) -> Callable[..., Step]:
    """Return an entry for a function that has the settings of a module."""

    def entry(input: Traced, *args: Any, **settings: Any) -> Step:
        found = MODULES[kind](kind(*args, **settings))
        return Step(found.ops if isinstance(found, ModuleSemantics) else found, (input,))

    return entry


def _adaptive_max_pool(input: Traced, output_size: Any, return_indices: bool = False) -> Step:
    return Step(adaptive_max_pool(output_size, return_indices), (input,))


def _dropout(kind: type[AnyDropout]) -> Callable[..., Step]:
    """Return an entry for a function that drops values, which is traced in training mode.

    In that mode the argument training=self.training is True.
    """

    def step(input: Traced, p: float = 0.5, training: bool = True, inplace: bool = False) -> Step:
        return Step(dropout(kind, p) if training else (), (input,), inplace and bool(p) and training)

    return step


def _identity(input: Traced) -> Step:
    return Step((), (input,))


FUNCTIONS: dict[Any, Callable[..., Step]] = {
    elementwise: expression_step,
    functional.relu: _relu,
    torch.relu: _relu,
    functional.relu_: _relu_in_place,
    torch.relu_: _relu_in_place,
    functional.leaky_relu: _leaky_relu,
    functional.leaky_relu_: _leaky_relu_in_place,
    functional.elu: _elu,
    functional.elu_: _elu_in_place,
    functional.relu6: _activation(ReLU6()),
    **{getattr(functional, op.__name__.lower()): _activation(op()) for op in FIXED_ACTIVATIONS},
    functional.gelu: _gelu,
    functional.softplus: _softplus,
    torch.sigmoid: _activation(Sigmoid()),
    torch.tanh: _activation(Tanh()),
    operator.mul: _mul,
    torch.mul: _mul,
    functional.pad: _pad,
    functional.interpolate: _interpolate,
    operator.add: _add,
    operator.iadd: _add_in_place,
    torch.add: _add,
    functional.max_pool2d: lambda input, *args, **settings: Step((max_pool(*args, **settings),), (input,)),
    torch.max_pool2d: lambda input, *args, **settings: Step((max_pool(*args, **settings),), (input,)),
    functional.avg_pool2d: lambda input, *args, **settings: Step((avg_pool(*args, **settings),), (input,)),
    functional.max_pool1d: lambda input, *args, **settings: Step((max_pool_sequence(*args, **settings),), (input,)),
    torch.max_pool1d: lambda input, *args, **settings: Step((max_pool_sequence(*args, **settings),), (input,)),
    functional.avg_pool1d: lambda input, *args, **settings: Step((avg_pool_sequence(*args, **settings),), (input,)),
    functional.adaptive_avg_pool1d: lambda input, output_size: Step((adaptive_pool_sequence(output_size),), (input,)),
    functional.adaptive_max_pool1d: _adaptive_max_pool,
    functional.adaptive_max_pool2d: _adaptive_max_pool,
    functional.dropout: _dropout(Dropout),
    gaussian_noise: lambda input, in_evaluation: Step((GaussianNoise(in_evaluation),), (input,)),
    stochastic_depth: lambda input, p: Step(dropout(StochasticDepth, p), (input,)),
    functional.dropout1d: _dropout(Dropout1d),
    functional.dropout2d: _dropout(Dropout2d),
    functional.adaptive_avg_pool2d: lambda input, output_size: Step((adaptive_pool(output_size),), (input,)),
}

METHODS: dict[str, Callable[..., Step]] = {
    "relu": _relu,
    "relu_": _relu_in_place,
    "add": _add,
    "add_": _add_in_place,
    "mul": _mul,
    "sigmoid": _activation(Sigmoid()),
    "tanh": _activation(Tanh()),
    "contiguous": _identity,
}
