"""The table ATEN_EXPRESSIONS: ATen operations on single values, with broadcasting, and reductions along axes."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import fx

from edgefl.errors import GraphError
from edgefl.torch.aten_functions import ATEN_FUNCTIONS
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.code_lines import packet
from edgefl.torch.expression_calls import elementwise, reduction
from edgefl.torch.traced_call import expect

COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
POSITIONS: dict[int, tuple[tuple[int, ...], ...]] = {1: ((),), 2: ((),), 3: ((2,), (1,)), 4: ((2, 3), (2,), (3,))}
"""The axes of positions by the number of axes, all positions first. They are pooled (shape_table.py)."""
ROOT = "where(a > 0, sqrt(where(a > 0, a, 1)), 0)"  # its gradient is 0 where a is 0, as that of a norm in torch
BROADCASTING = ("add", "sub", "mul", "div", "maximum", "minimum")


def _of_one(expression: str) -> Entry:
    """Return an entry for a function of one value."""
    return lambda lift, input, *args, **settings: lift.call(elementwise, expression, lift.lifted(input))


def _of_two(expression: str) -> Entry:
    """Return an entry for a function of two results, or of a result and a number."""
    return lambda lift, input, other: _expression(lift, expression, input, other)


def _expression(lift: Lifting, expression: str, *operands: Any) -> Any:
    """Return the call of an expression of results and numbers, whose names in the expression are a, b and c."""
    values, parts = list[fx.Node](), dict[str, str]()
    for letter, operand in zip("abc", operands, strict=False):
        if isinstance(operand, fx.Node) and lift.is_value(operand):
            value = lift.lifted(operand)
            values += [value] if value not in values else []
            parts[letter] = "abcd"[values.index(value)]
        else:
            parts[letter] = _number(lift, operand)
    text = re.sub(r"\b[abc]\b", lambda found: parts[found[0]], expression)
    return lift.call(elementwise, text, *values)


def _number(lift: Lifting, operand: Any) -> str:
    """Return a number as text."""
    known = lift.known(operand)
    value = float(known.reshape(-1)[0]) if isinstance(known, torch.Tensor) and known.numel() == 1 else known
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise GraphError("an operand that is neither a result nor a number; expected one of them")
    return f"({float(value)!r})"


def _power(lift: Lifting, input: Any, exponent: Any) -> Any:
    if not (isinstance(input, fx.Node) and lift.is_value(input)):
        raise GraphError("a power of a constant by a result; expected a result to a constant power")
    return lift.call(elementwise, f"a ** {_number(lift, exponent)}", lift.lifted(input))


def _clamp(lift: Lifting, input: fx.Node, min: Any = None, max: Any = None) -> Any:
    text = "a"
    for function, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            text = f"{function}({text}, {_number(lift, bound)})"
    return lift.call(elementwise, text, lift.lifted(input))


def _multiply(lift: Lifting, input: Any, other: Any) -> Any:
    if input is other and lift.is_value(input):
        return lift.call(elementwise, "a * a", lift.lifted(input))
    return ATEN_FUNCTIONS["mul"](lift, input, other)


def _divide(lift: Lifting, input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    if rounding_mode is None and isinstance(other, fx.Node) and lift.is_value(other):
        return _expression(lift, "a / b", input, other)
    return ATEN_FUNCTIONS["div"](lift, input, other, rounding_mode=rounding_mode)


def _subtract(lift: Lifting, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    both = all(isinstance(each, fx.Node) and lift.is_value(each) for each in (input, other))
    if both and alpha == 1 and input is not other:
        return lift.call(elementwise, "a - b", lift.lifted(input), lift.lifted(other))
    return ATEN_FUNCTIONS["sub"](lift, input, other, alpha=alpha)


def _add_product(lift: Lifting, input: Any, one: Any, other: Any, *, value: Any = 1) -> Any:
    expect("value", value, 1)
    return lift.call(torch.add, ATEN_FUNCTIONS["mul"](lift, one, other), lift.lifted(input))


def _where(lift: Lifting, condition: fx.Node, input: Any, other: Any) -> Any:
    """Return the choice by a comparison of results."""
    return _expression(lift, "where(a, b, c)", condition, input, other)


def _expand(lift: Lifting, input: fx.Node, size: Any, **settings: Any) -> Any:
    """Return the value itself where operations that broadcast read it."""
    if lift.is_value(input) and all(packet(user) in BROADCASTING for user in lift.node.users):
        return lift.lifted(input)
    return ATEN_FUNCTIONS["expand"](lift, input, size, **settings)


# ---- reductions -----------------------------------------------------------------------------------------------------


def _dims(lift: Lifting, input: fx.Node, dim: Any) -> tuple[int, ...]:
    """Return torch's axes from the front. No axes stand for all but the batch, which is refused."""
    rank = input.meta["val"].dim()
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    return tuple(sorted(each % rank for each in dims))


def _reduce(kind: str) -> Entry:
    def entry(lift: Lifting, input: fx.Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        expect("dtype", dtype, None)
        return lift.call(reduction, lift.lifted(input), kind, _dims(lift, input, dim), keepdim)

    return entry


def _mean(lift: Lifting, input: fx.Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return a pool over positions, or a reduction where other axes are among the axes."""
    if _dims(lift, input, dim) in POSITIONS[input.meta["val"].dim()]:
        return ATEN_FUNCTIONS["mean"](lift, input, dim, keepdim, dtype=dtype)
    return _reduce("mean")(lift, input, dim, keepdim, dtype=dtype)


def _largest(lift: Lifting, input: fx.Node, dim: Any = None, keepdim: bool = False) -> Any:
    """Return a pool over all positions, or a reduction along other axes."""
    if _dims(lift, input, dim) == POSITIONS[input.meta["val"].dim()][0]:
        return ATEN_FUNCTIONS["amax"](lift, input, dim, keepdim)
    return _reduce("max")(lift, input, dim, keepdim)


def _vector_norm(
    lift: Lifting, input: fx.Node, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Return the root of the sum of squares, whose gradient is 0 where the sum is 0, as in torch."""
    expect("ord", float(ord), 2.0)
    expect("dtype", dtype, None)
    squares = lift.call(elementwise, "a * a", lift.lifted(input))
    total = lift.call(reduction, squares, "sum", _dims(lift, input, dim), keepdim)
    return lift.call(elementwise, ROOT, total)


def _variance(lift: Lifting, input: fx.Node, dim: Any = None, **settings: Any) -> Any:
    expect("correction", settings.get("correction", 1), 0)
    dims = _dims(lift, input, dim)
    mean = lift.call(reduction, lift.lifted(input), "mean", dims, True)
    squares = lift.call(elementwise, "(a - b) * (a - b)", lift.lifted(input), mean)
    return lift.call(reduction, squares, "mean", dims, bool(settings.get("keepdim", False)))


def _softmax(name: str, expression: str) -> Entry:
    """Return an entry for a softmax along an axis. At the end of the module it is left to the loss."""

    def entry(lift: Lifting, input: fx.Node, dim: int, dtype: Any = None) -> Any:
        if _is_end(lift.node):
            return ATEN_FUNCTIONS[name](lift, input, dim)
        expect("dtype", dtype, None)
        value, dims = lift.lifted(input), _dims(lift, input, dim)
        largest = lift.call(reduction, value, "max", dims, True)
        below = lift.call(elementwise, "a - b", value, largest)
        powers = lift.call(elementwise, "exp(a)", below)
        total = lift.call(reduction, powers, "sum", dims, True)
        return lift.call(elementwise, expression, below if name == "log_softmax" else powers, total)

    return entry


def _is_end(node: fx.Node) -> bool:
    """Return whether the module returns a node, or copies of it alone."""
    return all(
        user.op == "output" or (packet(user) in ("alias", "clone", "contiguous") and _is_end(user))
        for user in node.users
    )


ATEN_EXPRESSIONS: dict[str, Entry] = {
    **{name: _of_one(f"{name}(a)") for name in ("exp", "log", "sqrt", "sin", "cos")},
    "rsqrt": _of_one("1 / sqrt(a)"),
    "reciprocal": _of_one("1 / a"),
    "square": _of_one("a * a"),
    "abs": _of_one("abs(a)"),
    "pow": _power,
    **{name: _of_two(f"{name}(a, b)") for name in ("maximum", "minimum")},
    **{name: _of_two(f"a {sign} b") for name, sign in COMPARED.items()},
    "clamp": _clamp,
    "clamp_min": lambda lift, input, min: _clamp(lift, input, min),
    "clamp_max": lambda lift, input, max: _clamp(lift, input, None, max),
    "mul": _multiply,
    "div": _divide,
    "sub": _subtract,
    "addcmul": _add_product,
    "where": _where,
    "expand": _expand,
    "expand_as": _expand,
    "sum": _reduce("sum"),
    "amax": _largest,
    "amin": _reduce("min"),
    "mean": _mean,
    "linalg_vector_norm": _vector_norm,
    "var": _variance,
    "softmax": _softmax("softmax", "a / b"),
    "log_softmax": _softmax("log_softmax", "a - log(b)"),
}
"""The calls for ATen operations, by the name of the operation without its overload."""
