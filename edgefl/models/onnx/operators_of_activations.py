"""Activations that are one ONNX operator. activation_patterns.py has the activations that exporters write out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    ELU,
    GELU,
    AddParameter,
    Dropout,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    Mish,
    MulParameter,
    Operation,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
)
from edgefl.models.onnx.axis_atoms import OnnxResult
from edgefl.models.onnx.onnx_call import OnnxCall
from edgefl.models.onnx.operators_of_products import with_parameters

LARGEST = 3.4e38  # exporters write the largest float32 where there is no bound


def applied(call: OnnxCall, op: Operation, value: OnnxResult) -> OnnxResult:
    """Add an operation on single values. The axes stay as they are."""
    return replace(value, name=call.assembly.add(op, (value.name,)))


def plain(op: Operation) -> Callable[[OnnxCall], OnnxResult]:
    """Return the reading of an operator that is this operation."""
    return lambda call: applied(call, op, call.value())


def clip(call: OnnxCall) -> OnnxResult:
    low, high = call.number("min", 1, -math.inf), call.number("max", 2, math.inf)
    return applied(call, clipped(low, high), call.value())


def clipped(low: float, high: float) -> Operation:
    if low == 0 and high == 6:
        return ReLU6()
    if low == 0 and high > LARGEST:
        return ReLU()
    raise GraphError(f"min={low:g}, max={high:g}; expected 0 and 6, or 0 and no upper bound")


def leaky_relu(call: OnnxCall) -> OnnxResult:
    return applied(call, LeakyReLU(_written(call.number("alpha", None, 0.01))), call.value())


def elu(call: OnnxCall) -> OnnxResult:
    return applied(call, ELU(_written(call.number("alpha", None, 1.0))), call.value())


def celu(call: OnnxCall) -> OnnxResult:
    call.expect("alpha", call.number("alpha", None, 1.0), 1.0)
    return applied(call, ELU(1.0), call.value())


def _written(number: float) -> float:
    """Return the number that was written as float32, such as 0.01."""
    return float(f"{number:.7g}")


def hard_sigmoid(call: OnnxCall) -> OnnxResult:
    slope, middle = call.number("alpha", None, 0.2), call.number("beta", None, 0.5)
    value = call.value()
    if abs(slope - 1 / 6) > 1e-6:  # alpha x + beta is y / 6 + 1/2 with y = 6 alpha x + 6 (beta - 1/2)
        value = with_number(call, value, 6 * slope, is_product=True)
    if middle != 0.5:
        value = with_number(call, value, 6 * (middle - 0.5), is_product=False)
    return applied(call, Hardsigmoid(), value)


def with_number(call: OnnxCall, value: OnnxResult, number: float, is_product: bool) -> OnnxResult:
    """Add a sum or a product with one number, which is not trained."""
    shape = value.shape[:1]
    op = MulParameter(shape) if is_product else AddParameter(shape)
    held = {"": np.full(shape, number, np.float32)}
    return replace(value, name=call.assembly.add(op, (value.name,), held, frozen=True))


def gelu(call: OnnxCall) -> OnnxResult:
    return applied(call, GELU(call.attribute("approximate", "none")), call.value())


def swish(call: OnnxCall) -> OnnxResult:
    call.expect("alpha", call.number("alpha", None, 1.0), 1.0)
    return applied(call, SiLU(), call.value())


def prelu(call: OnnxCall) -> OnnxResult:
    value, slope = call.value(), call.constant(1)
    shape = (1,) * (value.rank - slope.array.ndim) + slope.array.shape
    long = [at for at, size in enumerate(shape) if size > 1]
    if not long:
        return replace(value, name=with_parameters(call, PReLU(1), value.name, {"weight": slope}))
    if len(long) > 1 or len(shape) != value.rank or shape[long[0]] != value.extents[long[0]]:
        raise GraphError(f"a slope of shape {slope.array.shape} for {value}; expected one slope for each channel")
    from edgefl.models.onnx.operators_of_arithmetic import with_first

    value = with_first(call, value, long)
    op = PReLU(shape[long[0]])
    return replace(value, name=with_parameters(call, op, value.name, {"weight": slope}))


def dropout(call: OnnxCall) -> OnnxResult:
    """Read a Dropout, which drops nothing here and drops values in training."""
    ratio = call.number("ratio", 1, 0.5)
    return applied(call, Dropout(ratio), call.value()) if ratio else call.value()


ACTIVATIONS: dict[str, Callable[[OnnxCall], OnnxResult]] = {
    "Relu": plain(ReLU()),
    "Sigmoid": plain(Sigmoid()),
    "Tanh": plain(Tanh()),
    "HardSwish": plain(Hardswish()),
    "Softplus": plain(Softplus()),
    "Mish": plain(Mish()),
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "Celu": celu,
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "Swish": swish,
    "PRelu": prelu,
    "Dropout": dropout,
}
