"""Values of parameters that take several computed parameters, one after another.

These are products of any factors (einsum), permuted axes, sums and Euclidean norms along axes, weight norm along any
axis, expressions value by value, and a convolution of single cells over constants. The operations of the chains are in
models/graph/computed_parameters.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.models.graph.computed_parameters import (
    ExchangedAxes,
    MatrixProduct,
    ParameterExpression,
    ParameterOperation,
    ParameterSum,
    ReshapedParameter,
    RowsAtPlaces,
    WeightNorm,
)
from edgefl.models.graph.operations import Shape
from edgefl.torch.bare_parameters import VIEWING
from edgefl.torch.code_lines import packet


class ParameterChain(Protocol):
    """A chain asks for parameters and computed parameters by these functions."""

    def name_of(self, node: fx.Node) -> str:
        """Return the name of a parameter."""

    def apply(self, op: ParameterOperation, *names: str) -> str:
        """Append a computed parameter, and return its name."""

    def __contains__(self, node: object) -> bool:
        """Return whether a node is a parameter, or follows from parameters."""

    def constant(self, value: Tensor) -> str:
        """Return the name of a constant, which is a frozen parameter."""

    def shape_of(self, name: str) -> Shape:
        """Return the shape of a parameter."""

    def known(self, argument: object) -> Tensor:
        """Return the value of a constant."""


LEAST = -1e30  # what the bias of an attention has where a key is left out (aten_masks.py)
ROOT = "where(a > 0, sqrt(where(a > 0, a, 1)), 0)"
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
Chain = Callable[[ParameterChain, fx.Node], str]


def reshaped(steps: ParameterChain, name: str, shape: Shape) -> str:
    """Return the name of a parameter in another shape."""
    before = steps.shape_of(name)
    return name if before == shape else steps.apply(ReshapedParameter(before, shape), name)


def permuted(steps: ParameterChain, name: str, order: Shape) -> str:
    """Return the name of a parameter whose axis i is axis order[i] of the named parameter."""
    shape, axes = steps.shape_of(name), list(range(len(order)))
    for at, axis in enumerate(order):
        place = axes.index(axis)
        if place == at:
            continue
        sizes = [shape[each] for each in axes]
        parts = (sizes[:at], sizes[at:place], [sizes[place]], sizes[place + 1 :])
        exchange = ExchangedAxes(*(math.prod(part) for part in parts))
        name = steps.apply(exchange, reshaped(steps, name, exchange.sources[0]))
        axes.insert(at, axes.pop(place))
    return reshaped(steps, name, tuple(shape[axis] for axis in order))


def _permute(steps: ParameterChain, node: fx.Node) -> str:
    order = [int(dim) for dim in node.args[1]]  # type: ignore[union-attr, arg-type]
    return permuted(steps, _first(steps, node), tuple(dim % len(order) for dim in order))


def _transpose(steps: ParameterChain, node: fx.Node) -> str:
    name = _first(steps, node)
    axes = list(range(len(steps.shape_of(name))))
    one, other = (int(str(dim)) % len(axes) for dim in node.args[1:3])
    axes[one], axes[other] = axes[other], axes[one]
    return permuted(steps, name, tuple(axes))


def _first(steps: ParameterChain, node: fx.Node) -> str:
    return steps.name_of(node.all_input_nodes[0])


def _weight_norm(steps: ParameterChain, node: fx.Node) -> str:
    """Return the weight norm along the axis args[2], whose values are turned into rows and back."""
    v, g = (steps.name_of(each) for each in node.all_input_nodes[:2])
    shape, axis = steps.shape_of(v), node.args[2]
    assert isinstance(axis, int)
    order = (axis % len(shape), *(each for each in range(len(shape)) if each != axis % len(shape)))
    turned = permuted(steps, v, order)
    rows = (shape[order[0]], math.prod(shape) // shape[order[0]])
    matrix = reshaped(steps, turned, rows)
    normed = steps.apply(WeightNorm(rows), reshaped(steps, g, (rows[0], 1)), matrix)
    whole = reshaped(steps, normed, tuple(shape[each] for each in order))
    return permuted(steps, whole, tuple(order.index(each) for each in range(len(shape))))


def _einsum(steps: ParameterChain, node: fx.Node) -> str:
    """Return the product of all factors. A letter that two factors have is summed over where they meet."""
    equation = str(node.args[0]).replace(" ", "")
    letters, arrow, wanted = equation.partition("->")
    factors = list(zip(letters.split(","), map(steps.name_of, node.args[1]), strict=True))  # type: ignore[arg-type]
    if not arrow or "." in equation or any(len(set(own)) < len(own) for own, _ in factors):
        raise GraphError(f"einsum of {equation!r} over parameters; expected letters, each once in a factor, and ->")
    own, name = factors.pop(0)
    while factors:
        at = next((at for at, (other, _) in enumerate(factors) if set(own) & set(other)), 0)
        other, factor = factors.pop(at)
        summed = [letter for letter in own if letter in other]
        if any(letter in wanted or any(letter in rest for rest, _ in factors) for letter in summed):
            raise GraphError(f"einsum of {equation!r} over parameters; expected shared letters to be summed over")
        own, name = _contracted(steps, (own, name), (other, factor), summed)
    if sorted(own) != sorted(wanted):
        raise GraphError(f"einsum of {equation!r} over parameters; expected sums over letters of two factors alone")
    return permuted(steps, name, tuple(own.index(letter) for letter in wanted))


def _contracted(
    steps: ParameterChain, one: tuple[str, str], other: tuple[str, str], summed: list[str]
) -> tuple[str, str]:
    """Return the letters and the name of the product of two factors, summed over the shared letters."""
    (left, a), (right, b) = one, other
    sizes = dict(zip(left, steps.shape_of(a), strict=True)) | dict(zip(right, steps.shape_of(b), strict=True))
    rows, cols = (
        [letter for letter in left if letter not in summed],
        [letter for letter in right if letter not in summed],
    )
    a = permuted(steps, a, tuple(left.index(letter) for letter in (*rows, *summed)))
    b = permuted(steps, b, tuple(right.index(letter) for letter in (*summed, *cols)))
    m, inner, n = (math.prod(sizes[letter] for letter in each) for each in (rows, summed, cols))
    product = steps.apply(MatrixProduct(m, inner, n), reshaped(steps, a, (m, inner)), reshaped(steps, b, (inner, n)))
    kept = (*rows, *cols)
    return "".join(kept), reshaped(steps, product, tuple(sizes[letter] for letter in kept))


def _cells(steps: ParameterChain, node: fx.Node) -> str:
    """Return a convolution of single cells over a constant [1, channels, ...], such as features of positions."""
    source, weight, *rest = node.args
    constant = steps.known(source)
    if isinstance(source, fx.Node) and isinstance(source.meta["val"].shape[0], torch.SymInt):
        constant = constant[:1] if bool((constant == constant[:1]).all()) else constant
    name, defaults = steps.name_of(weight), ((1,), (0,), (1,), 1)  # type: ignore[arg-type]
    settings = tuple(tuple(set(each)) if isinstance(each, list | tuple) else each for each in rest[1:])
    if len(constant) != 1 or math.prod(steps.shape_of(name)[2:]) != 1 or settings != defaults[: len(settings)]:
        raise GraphError("a convolution of constants; expected windows of one cell, stride 1 and one group")
    out, channels = steps.shape_of(name)[:2]
    cells = constant[0].flatten(1).float().contiguous()
    count = cells.shape[1]
    product = MatrixProduct(out, channels, count)
    found = steps.apply(product, reshaped(steps, name, (out, channels)), steps.constant(cells))
    if rest and isinstance(rest[0], fx.Node):
        bias = reshaped(steps, steps.name_of(rest[0]), (out, 1))
        everywhere = steps.apply(MatrixProduct(out, 1, count), bias, steps.constant(torch.ones(1, count)))
        found = steps.apply(ParameterSum((out, count)), found, everywhere)
    return reshaped(steps, found, (1, out, *constant.shape[2:]))


def _expression(text: str) -> Chain:
    """Return the chain of an expression of parameters, constants and numbers, which are broadcast as in torch."""

    def chain(steps: ParameterChain, node: fx.Node) -> str:
        shape = _sizes(node)
        names, letters, known = list[str](), iter("abcd"), dict[str, str]()
        for letter, operand in zip("abcd", node.args, strict=False):
            if isinstance(operand, int | float):
                known[letter] = f"({float(operand)!r})"
            else:
                names.append(_broadcast(steps, operand, shape))
                known[letter] = next(letters)
        if node.kwargs:
            raise GraphError(f"{packet(node)} of parameters with settings; expected no settings")
        written = re.sub(r"\b[a-d]\b", lambda match: known[match[0]], text)
        return steps.apply(ParameterExpression(shape, written), *names)

    return chain


def _broadcast(steps: ParameterChain, operand: object, shape: Shape) -> str:
    """Return the name of a parameter or a constant that has a shape, by a product with ones along repeated axes."""
    if operand not in steps:
        value = _constant(steps, operand).float()
        return steps.constant(value.expand(shape).contiguous())
    assert isinstance(operand, fx.Node)
    name = steps.name_of(operand)
    own = steps.shape_of(name)
    own = (*(1 for _ in shape[len(own) :]), *own)
    if own == shape:
        return reshaped(steps, name, shape)
    kept, repeated = ([at for at in range(len(shape)) if (own[at] == shape[at]) is way] for way in (True, False))
    count, copies = math.prod(own), math.prod(shape[at] for at in repeated)
    column = reshaped(steps, name, (count, 1))
    product = steps.apply(MatrixProduct(count, 1, copies), column, steps.constant(torch.ones(1, copies)))
    order = [*kept, *repeated]
    whole = reshaped(steps, product, tuple(shape[at] for at in order))
    return permuted(steps, whole, tuple(order.index(at) for at in range(len(shape))))


def _total(steps: ParameterChain, name: str, node: fx.Node, dims: object) -> str:
    """Return the sums of a parameter along axes, whose shape is the node's: a product with ones."""
    shape = steps.shape_of(name)
    over = {int(dim) % len(shape) for dim in dims} if isinstance(dims, list | tuple) and dims else {*range(len(shape))}
    rest = [axis for axis in range(len(shape)) if axis not in over]
    rows, count = (math.prod(shape[axis] for axis in axes) for axes in (rest, over))
    matrix = reshaped(steps, permuted(steps, name, (*rest, *sorted(over))), (rows, count))
    found = steps.apply(MatrixProduct(rows, count, 1), matrix, steps.constant(torch.ones(count, 1)))
    return reshaped(steps, found, _sizes(node))


def _sum(steps: ParameterChain, node: fx.Node) -> str:
    return _total(steps, _first(steps, node), node, node.args[1] if len(node.args) > 1 else None)


def _vector_norm(steps: ParameterChain, node: fx.Node) -> str:
    """Return the Euclidean norms along axes, whose gradient is 0 where the norm is 0, as in torch."""
    name, settings = _first(steps, node), (*node.args[1:], 2, None)
    if settings[0] != 2 or node.kwargs:
        raise GraphError(f"linalg_vector_norm of a parameter with ord={settings[0]}; expected ord=2 and no dtype")
    squares = steps.apply(ParameterExpression(steps.shape_of(name), "a * a"), name)
    total = _total(steps, squares, node, settings[1] if len(node.args) > 2 else None)
    return steps.apply(ParameterExpression(steps.shape_of(total), ROOT), total)


def _clamp_min(steps: ParameterChain, node: fx.Node) -> str:
    least, name = node.args[1], _first(steps, node)
    if not isinstance(least, int | float):
        raise GraphError("clamp_min of a parameter by a tensor; expected a number")
    return steps.apply(ParameterExpression(steps.shape_of(name), f"maximum(a, {float(least)!r})"), name)


def _expand(steps: ParameterChain, node: fx.Node) -> str:
    return _broadcast(steps, node.args[0], _sizes(node))


def _rows(steps: ParameterChain, node: fx.Node) -> str:
    """Return the rows of a table at constant ids of any order, which keep the axes of the ids."""
    name, ids = steps.name_of(node.args[0]), steps.known(node.args[1])  # type: ignore[arg-type]
    return _at_places(steps, name, ids, 0)


def _index(steps: ParameterChain, node: fx.Node) -> str:
    """Return the values of a parameter at constant places of one axis."""
    indices: Any = node.args[1]
    (axis, *more) = [at for at, each in enumerate(indices) if each is not None]
    if more or (places := steps.known(indices[axis])).dtype != torch.int64:
        raise GraphError("values of a parameter at places of several axes; expected whole numbers for one axis")
    return _at_places(steps, _first(steps, node), places, axis)


def _at_places(steps: ParameterChain, name: str, places: Tensor, axis: int) -> str:
    shape = steps.shape_of(name)
    order = (axis, *(each for each in range(len(shape)) if each != axis))
    rest = tuple(shape[each] for each in order[1:])
    rows, cols, length = shape[axis], math.prod(rest), places.numel()
    table = reshaped(steps, permuted(steps, name, order), (rows, cols))
    ids = steps.constant((places.flatten() % rows).float())
    found = steps.apply(RowsAtPlaces(rows, cols, length), table, ids)
    whole, own = reshaped(steps, found, (*rest, *places.shape)), len(rest)
    axes = list(range(own))
    axes[axis:axis] = range(own, own + places.dim())
    return permuted(steps, whole, tuple(axes))


def _where(steps: ParameterChain, node: fx.Node) -> str:
    """Return the choice of a parameter or a number by a constant."""
    condition, *sides = node.args
    shape = _sizes(node)
    chosen = _constant(steps, condition).expand(shape)
    for side, is_all in zip(sides, (chosen.all(), (~chosen).all()), strict=True):
        if bool(is_all) and side in steps:
            return _broadcast(steps, side, shape)
    names, parts = [steps.constant(chosen.float().contiguous())], ["a"]
    for side in sides:
        if isinstance(side, int | float):
            parts.append(f"({max(float(side), LEAST)!r})")
        else:
            names.append(_broadcast(steps, side, shape))
            parts.append("abc"[len(names) - 1])
    return steps.apply(ParameterExpression(shape, f"where({', '.join(parts)})"), *names)


def _constant(steps: ParameterChain, operand: object) -> Tensor:
    """Return a constant, which has one example if all its examples are equal."""
    value = torch.as_tensor(steps.known(operand))
    if isinstance(operand, fx.Node) and any(isinstance(size, torch.SymInt) for size in operand.meta["val"].shape):
        if not bool((value == value[:1]).all()):
            raise GraphError("a constant that differs from example to example; expected one for all examples")
        return value[:1]
    return value


def _sizes(node: fx.Node) -> Shape:
    """Return the shape of a node, in which an axis of the batch has extent 1."""
    return tuple(1 if isinstance(size, torch.SymInt) else int(size) for size in node.meta["val"].shape)


def for_windows(steps: ParameterChain, name: str, windows: int, fixed: Tensor | None) -> str:
    """Return the name of a bias [heads, ...], repeated for each window, plus a constant [windows * heads, ...]."""
    heads, *rest = steps.shape_of(name)
    whole, count = (windows * heads, *rest), heads * math.prod(rest)
    if windows > 1:
        row, ones = reshaped(steps, name, (1, count)), steps.constant(torch.ones(windows, 1))
        name = reshaped(steps, steps.apply(MatrixProduct(windows, 1, count), ones, row), whole)
    return name if fixed is None else steps.apply(ParameterSum(whole), name, steps.constant(fixed))


def is_of_cells(node: fx.Node) -> bool:
    """Return whether a node is a view of a convolution over constants, whose axes no parameter of the module has."""
    while packet(node).removeprefix("_unsafe_") in VIEWING and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return CHAINS.get(packet(node)) is _cells


CHAINS: dict[str, Chain] = {
    "permute": _permute,
    "transpose": _transpose,
    "_weight_norm": _weight_norm,
    "einsum": _einsum,
    "conv1d": _cells,
    "conv2d": _cells,
    "embedding": _rows,
    "index": _index,
    "where": _where,
    "sum": _sum,
    "linalg_vector_norm": _vector_norm,
    "clamp_min": _clamp_min,
    "expand": _expand,
    "expand_as": _expand,
    **{name: _expression(f"{name}(a)") for name in ("abs", "sin", "cos", "exp", "log", "sqrt")},
    **{name: _expression(f"{name}(a, b)") for name in ("maximum", "minimum")},
    **{name: _expression(f"a {sign} b") for name, sign in SIGNS.items()},
    "neg": _expression("0 - a"),
    "sigmoid": _expression("1 / (1 + exp(0 - a))"),
}
"""The chains by the name of the ATen operation, for forms that one computed parameter does not have."""
