"""Calls that read a quantized parameter. A product over places and a lookup of ids read its codes. Before every other
call the parameter is widened into a buffer, which lives for this call.

Where activations are rounded to int8, convolutions and Linear layers with int8 weights multiply codes by codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from edgefl.learning.lowering.schedule import Codes, Param, Scale, TapCodes, Tensor
from edgefl.models.graph.operations import Shape
from edgefl.models.graph.quantized_array import BYTES
from edgefl.models.graph.quantized_parameters import QuantizedParameter

ONE_CELL = ((1, 1), (0, 0), (1, 1), 1)  # stride, padding, dilation and groups of windows of one cell
MOST_PRODUCTS = 1 << 17  # products of int8 codes whose sum fits into 32 bits
MANY = 1 << 14  # weights from which reading the codes is worth a kernel of its own

Call = tuple[str, tuple[Any, ...]]


class CallRecorder(Protocol):
    """The protocol of what this module needs. A Recorder follows this protocol."""

    @property
    def int8_activations(self) -> bool: ...

    @property
    def quantized(self) -> Mapping[str, QuantizedParameter]: ...

    def rows(self, name: str) -> int: ...

    def new(self, shape: Shape) -> Tensor: ...

    def call(self, op: str, *args: Any) -> None: ...


def widened_call(recorder: CallRecorder, op: str, args: tuple[Any, ...]) -> Call:
    """Return the call that takes the place of a call, and reads quantized parameters by their codes or widened."""
    found = recorder.quantized
    which = [at for at, arg in enumerate(args) if isinstance(arg, Param) and arg.name in found]
    if not which:
        return op, args
    if recorder.int8_activations and op in PRODUCTS_OF_CODES and len(which) == 1:
        call = PRODUCTS_OF_CODES[op](found[args[which[0]].name], *args)
        if call is not None:
            return call
    if op in DIRECT and len(which) == 1:
        call = DIRECT[op](found[args[which[0]].name], *args)
        if call is not None:
            return call
    wide = {at: _widened(recorder, found[args[at].name], args[at]) for at in which}
    return op, tuple(wide.get(at, arg) for at, arg in enumerate(args))


def _widened(recorder: CallRecorder, quantized: QuantizedParameter, param: Param) -> Tensor:
    """Record the call that widens a parameter, and return its values in the shape of `param`."""
    rows = recorder.rows(param.name)
    values = recorder.new((rows, math.prod(param.shape) // rows))
    recorder.call("widen_weight", *_weight(quantized, values.shape), values)
    return values.view(*param.shape)


def _weight(quantized: QuantizedParameter, shape: Shape) -> tuple[Codes, Scale | None, Scale | None]:
    """Return the codes, the scales of rows and the scales of columns of a parameter of this shape, [rows, columns]."""
    codes = Codes(quantized.name, (*shape, BYTES[quantized.precision]))
    scale = None if quantized.precision == "bfloat16" else Scale(quantized.name, shape[quantized.axis])
    return (codes, scale, None) if quantized.axis == 0 else (codes, None, scale)


def _forward(
    quantized: QuantizedParameter, x: Tensor, weight: Param, bias: Any, y: Tensor, *settings: Any
) -> Call | None:
    if not _is_pointwise(x, y, weight, settings):
        return None
    return "pointwise_forward", (_flat(x), *_weight(quantized, weight.shape[:2]), bias, _flat(y))


def _grad_input(quantized: QuantizedParameter, dy: Tensor, weight: Param, dx: Tensor, *settings: Any) -> Call | None:
    *window, outs, ins = settings
    if not _is_pointwise(dy, dx, weight, tuple(window)):
        return None
    return "pointwise_grad_input", (_flat(dy), *_weight(quantized, weight.shape[:2]), _flat(dx), outs, ins)


def _lookup(quantized: QuantizedParameter, ids: Any, weight: Param, y: Tensor) -> Call:
    return "embedding_stored", (ids, *_weight(quantized, weight.shape), y)


def _convolution_of_codes(
    quantized: QuantizedParameter, x: Tensor, weight: Param, bias: Any, y: Tensor, *settings: Any
) -> Call | None:
    *window, groups = settings
    outs, ins, *taps = weight.shape
    fits = quantized.precision == "int8" and quantized.axis == 0 and math.prod(weight.shape[1:]) <= MOST_PRODUCTS
    if not fits or groups != 1 or not x.lanes == y.lanes == 1:
        return None
    codes = TapCodes(quantized.name, (outs, *taps, ins))
    return "conv2d_int8", (x, codes, Scale(quantized.name, outs), bias, y, *window)


def _linear_of_codes(quantized: QuantizedParameter, x: Tensor, weight: Param, bias: Any, y: Tensor) -> Call | None:
    one = (1, 1)
    planes = x.view(*x.shape[:2], *one), weight.view(*weight.shape, *one), bias, y.view(*y.shape[:2], *one)
    return _convolution_of_codes(quantized, *planes, *ONE_CELL)


PRODUCTS_OF_CODES: dict[str, Callable[..., Call | None]] = {
    "conv2d_forward": _convolution_of_codes,
    "linear_forward": _linear_of_codes,
}
DIRECT: dict[str, Callable[..., Call | None]] = {
    "conv2d_forward": _forward,
    "conv2d_grad_input": _grad_input,
    "embedding_forward": _lookup,
}


def _is_pointwise(x: Tensor, y: Tensor, weight: Param, window: tuple[Any, ...]) -> bool:
    """Return whether a convolution has windows of one cell, and many weights."""
    is_plain = window == ONE_CELL and weight.shape[2:] == (1, 1) and x.lanes == y.lanes == 1
    return is_plain and math.prod(weight.shape) >= MANY


def _flat(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], math.prod(x.shape[2:]))
