"""The table ATEN_FUNCTIONS: calls of torch's functions for ATen operations without parameters of their own.

An entry has the arguments of the ATen operation after the lifting and the node. function_table.py and shape_table.py
say what the functions mean in a graph. Operations with parameters are in aten_layers.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.models.graph.operations import FIXED_ACTIVATIONS
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.aten_norms import rms_norm_of
from edgefl.torch.aten_random import divided, masked
from edgefl.torch.code_lines import packet
from edgefl.torch.traced_call import expect

WHOLE = 2**62  # the end of a slice without an end is larger


def _passed_on(function: Callable[..., Any]) -> Entry:
    """Return an entry for a function of torch that has the arguments of the ATen operation."""
    return lambda lift, *args, **settings: lift.call(function, *lift.lifted(args), **lift.lifted(settings))


def _unchanged(lift: Lifting, input: fx.Node, *args: Any, **settings: Any) -> Any:
    return lift.lifted(input)


def _cast(lift: Lifting, input: fx.Node, *args: Any, **settings: Any) -> Any:
    """Return the input itself, or the input as integers for an Embedding."""
    found, source = lift.node.meta["val"].dtype, input.meta["val"].dtype
    if found == source or (found, source) == (torch.int64, torch.int32):
        return lift.lifted(input)
    if found in (torch.int64, torch.int32):
        return lift.method("long", lift.lifted(input))
    raise GraphError(f"{source} as {found}; expected float32 throughout")


def _expand(lift: Lifting, input: fx.Node, size: Any, **settings: Any) -> Any:
    if lift.node.meta["val"].shape != input.meta["val"].shape:
        raise GraphError(f"sizes {_shown(lift.node)} of {_shown(input)}; expected equal sizes")
    return lift.lifted(input)


def _hardtanh(lift: Lifting, input: fx.Node, min_val: float = -1, max_val: float = 1) -> Any:
    expect("min_val", min_val, 0)
    expect("max_val", max_val, 6)
    return lift.call(functional.relu6, lift.lifted(input))


def _elu(lift: Lifting, input: fx.Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    expect("scale", scale, 1)
    expect("input_scale", input_scale, 1)
    return lift.call(functional.elu, lift.lifted(input), alpha)


def _dropout_of_channels(lift: Lifting, input: fx.Node, p: float, train: bool) -> Any:
    kind = functional.dropout2d if input.meta["val"].dim() == 4 else functional.dropout1d
    return lift.call(kind, lift.lifted(input), p, train)


def _slice(lift: Lifting, input: fx.Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if lift.node.meta["val"].shape == input.meta["val"].shape and step == 1:
        return lift.lifted(input)
    part = slice(start, None if isinstance(end, int) and end > WHOLE else lift.lifted(end), step)
    whole = (slice(None),) * (dim % input.meta["val"].dim())
    return lift.call(operator.getitem, lift.lifted(input), (*whole, part))


def _nearest(lift: Lifting, input: fx.Node, output_size: Any, scale_factors: Any = None) -> Any:
    if output_size is not None and not scale_factors:
        source, found = input.meta["val"].shape[2:], lift.node.meta["val"].shape[2:]
        scale_factors = [to / own for own, to in zip(source, found, strict=True)]
    return lift.call(functional.interpolate, lift.lifted(input), None, scale_factors)


def _bilinear(
    lift: Lifting, input: fx.Node, output_size: Any, align_corners: bool, scale_factors: Any = None, *each: Any
) -> Any:
    if output_size is None:
        factors = tuple(scale_factors) if isinstance(scale_factors, list | tuple) else (scale_factors, *each)
        return lift.call(functional.interpolate, lift.lifted(input), None, factors, "bilinear", align_corners)
    size = tuple(int(extent) for extent in lift.node.meta["val"].shape[2:])
    return lift.call(functional.interpolate, lift.lifted(input), size, None, "bilinear", align_corners)


def _linear(lift: Lifting, input: fx.Node, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Any:
    factors = None if scale_factors is None else tuple(scale_factors)
    size = int(lift.node.meta["val"].shape[2]) if output_size is not None else None
    return lift.call(functional.interpolate, lift.lifted(input), size, factors, "linear", align_corners)


def _flip(lift: Lifting, input: fx.Node, dims: list[int]) -> Any:
    return lift.call(torch.flip, lift.lifted(input), dims)


def _constant_pad(lift: Lifting, input: fx.Node, pad: Any, value: Any = 0) -> Any:
    return lift.call(functional.pad, lift.lifted(input), pad, "constant", value)


def _cat(lift: Lifting, tensors: list[fx.Node], dim: int = 0) -> Any:
    if len(tensors) == 1:
        return lift.lifted(tensors[0])
    values = [each for each in tensors if lift.is_value(each)]
    return lift.call(torch.cat, [_beside(lift, each, values[0], dim) for each in tensors], dim)


def _beside(lift: Lifting, part: fx.Node, like: fx.Node, dim: int) -> fx.Node:
    """Return a part of a concatenation as a result. A class token becomes 0 times a result, plus the token."""
    if lift.is_value(part):
        found: fx.Node = lift.lifted(part)
        return found
    sizes, length = lift.extents(like), lift.extents(part)[dim]
    if len(sizes) != 3 or not 0 < dim % 3 < 3 or length > sizes[dim]:
        raise GraphError("a parameter or constant beside results; expected results of operations")
    whole = (slice(None),) * (dim % 3)
    none = lift.call(torch.mul, lift.call(operator.getitem, lift.lifted(like), (*whole, slice(0, length))),
                     lift.constant(torch.tensor(0.0)))  # fmt: skip
    return lift.call(torch.add, none, lift.lifted(part))


def _item(lift: Lifting, source: fx.Node, index: int) -> Any:
    """Return one of several results."""
    found = lift.several.get(source)
    if found is not None:
        if index >= len(found):
            raise GraphError("the cells of an LSTM; expected its outputs or its last states")
        if index and len(states := lift.states.get(source, [])) > 1:
            if any(packet(user) != "select" for user in lift.node.users):
                raise GraphError("the last states of several layers; expected the state of one layer, as by h[-1]")
            lift.states[lift.node] = states
        return found[index]
    found = lift.lifted(source)
    if str(getattr(source.target, "__name__", "")).startswith("adaptive_max_pool"):
        if index:
            raise GraphError("the positions of the largest values; expected the largest values alone")
        return found
    return lift.call(operator.getitem, found, index)


def _select(lift: Lifting, input: fx.Node, dim: int, index: int) -> Any:
    """Return one position, which may be the last state of one layer of several."""
    states = lift.states.get(input)
    if not states:
        return lift.call(torch.select, lift.lifted(input), dim, index)
    expect("dim", dim, 0)
    return lift.call(torch.select, states[index], 0, 0)


def _transposed(lift: Lifting, input: fx.Node) -> Any:
    return lift.call(torch.transpose, lift.lifted(input), 0, 1)


def _add(lift: Lifting, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _sum(lift, _term(lift, input), _term(lift, _times(lift, other, lift.known(alpha))))


def _subtract(lift: Lifting, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _sum(lift, _term(lift, input), _term(lift, _times(lift, other, -lift.known(alpha))))


def _subtract_from(lift: Lifting, input: Any, other: Any, alpha: Any = 1) -> Any:
    return _subtract(lift, other, input, alpha=alpha)


def _negative(lift: Lifting, input: fx.Node) -> Any:
    return _times(lift, input, -1)


def _multiply(lift: Lifting, input: Any, other: Any) -> Any:
    if (norm := rms_norm_of(lift, lift.node)) is not None:
        return norm
    if input in lift.masks:
        input, other = other, input
    if other in lift.masks:
        return masked(lift, input, lift.masks[other])
    if not lift.is_value(input):
        input, other = other, input
    if lift.is_value(other) or lift.is_parameter(other):
        return lift.call(torch.mul, lift.lifted(input), lift.lifted(other))
    return _times(lift, input, lift.known(other))


def _divide(lift: Lifting, input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    expect("rounding_mode", rounding_mode, None)
    if input in lift.masks and not isinstance(other, fx.Node):
        return divided(lift, lift.masks[input], float(other))
    if lift.is_value(other) or lift.is_parameter(other):
        raise GraphError("a divisor that is not a constant; expected a number or a buffer")
    return _times(lift, input, 1 / _number(lift.known(other)).double())


def _times(lift: Lifting, input: Any, factor: Any) -> Any:
    """Return a value, or a constant, multiplied by a constant. The value is lifted."""
    factor = _number(factor)
    if not (lift.is_value(input) or lift.is_parameter(input)):
        return _number(lift.known(input)) * factor
    if bool((factor == 1).all()) and factor.dim() <= input.meta["val"].dim():
        return lift.lifted(input)
    return lift.call(torch.mul, lift.lifted(input), lift.constant(factor.float()))


def _term(lift: Lifting, term: Any) -> Any:
    """Return a summand as a lifted call, or as a constant."""
    if isinstance(term, fx.Node) and term.graph is lift.graph:
        return term
    if lift.is_value(term) or lift.is_parameter(term):
        return lift.lifted(term)
    return _number(lift.known(term))


def _sum(lift: Lifting, one: Any, other: Any) -> Any:
    """Return the sum of two lifted terms. A constant that is 0 everywhere leaves the other term as it is."""
    if isinstance(one, Tensor):
        one, other = other, one
    if one is other:
        return lift.call(torch.mul, one, lift.constant(torch.tensor(2.0)))
    if not isinstance(other, Tensor):
        return lift.call(torch.add, one, other)
    if not other.any() and other.dim() <= lift.node.meta["val"].dim():
        return one
    return lift.call(torch.add, one, lift.constant(other.float() if other.dtype != torch.float32 else other))


def _number(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value))


def _shown(node: fx.Node) -> str:
    sizes = node.meta["val"].shape
    return f"[{', '.join('batch' if isinstance(size, torch.SymInt) else str(size) for size in sizes)}]"


ATEN_FUNCTIONS: dict[str, Entry] = {
    **{
        name: _passed_on(getattr(torch, name))
        for name in ("relu", "sigmoid", "tanh", "permute", "transpose", "unsqueeze", "squeeze", "unflatten",
                     "narrow", "mean", "amax", "max", "movedim", "flatten", "softmax", "log_softmax", "reshape")
    },
    **{
        name: _passed_on(getattr(functional, name))
        for name in (*(op.__name__.lower() for op in FIXED_ACTIVATIONS), "relu6", "gelu", "leaky_relu", "softplus",
                     "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d",
                     "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "dropout", "pad")
    },
    **dict.fromkeys(("view", "_unsafe_view"), _passed_on(torch.reshape)),
    **dict.fromkeys(("contiguous", "clone", "alias"), _unchanged),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    "expand": _expand,
    "hardtanh": _hardtanh,
    "elu": _elu,
    "feature_dropout": _dropout_of_channels,
    "slice": _slice,
    "upsample_nearest2d": _nearest,
    "upsample_bilinear2d": _bilinear,
    "upsample_linear1d": _linear,
    "constant_pad_nd": _constant_pad,
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "getitem": _item,
    "select": _select,
    "t": _transposed,
    "add": _add,
    "sub": _subtract,
    "rsub": _subtract_from,
    "neg": _negative,
    "mul": _multiply,
    "div": _divide,
}  # fmt: skip
"""The calls for ATen operations, by the name of the operation without its overload."""
