"""Activations that exporters write as several ONNX operators, such as SiLU as x sigmoid(x).

The expression behind a node is brought into one form: sums and products with their constants in front and their parts
in order. So one pattern holds however the exporter has grouped the factors. Then the form is compared with PATTERNS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    GELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    Mish,
    Operation,
    ReLU6,
    SiLU,
    Softplus,
)
from edgefl.models.onnx.onnx_call import Constant, OnnxValue
from edgefl.models.onnx.onnx_content import OnnxNode

DEEPEST, LARGEST = 8, 32  # nodes above each other in an expression, and parts of an expression
LEVELS, MOST_LEAVES = 3, 12  # how far above the end of an activation its argument is looked for
MOST_STEPS = 1 << 20  # parts of expressions that are looked at in one file
X = ("x",)
Form = tuple[Any, ...]


def number(value: float) -> Form:
    return ("number", float(value))


def product(*factors: Form) -> Form:
    """Return a product with one constant in front, and the other factors in order."""
    constant, parts = 1.0, list[Form]()
    for factor in factors:
        if factor[0] == "number":
            constant *= factor[1]
        elif factor[0] == "*":
            constant *= factor[1]
            parts += factor[2]
        else:
            parts.append(factor)
    if not parts or constant == 0:
        return number(constant)
    return parts[0] if _close(constant, 1) and len(parts) == 1 else ("*", constant, _ordered(parts))


def total(*terms: Form) -> Form:
    """Return a sum with one constant in front, and the other terms in order."""
    constant, parts = 0.0, list[Form]()
    for term in terms:
        if term[0] == "number":
            constant += term[1]
        elif term[0] == "+":
            constant += term[1]
            parts += term[2]
        else:
            parts.append(term)
    if not parts:
        return number(constant)
    return parts[0] if constant == 0 and len(parts) == 1 else ("+", constant, _ordered(parts))


def _ordered(parts: list[Form]) -> Form:
    return tuple(sorted(parts, key=lambda part: repr(_shape(part))))


def _shape(form: object) -> object:
    """Return a form without its numbers."""
    return tuple(map(_shape, form)) if isinstance(form, tuple) else form if isinstance(form, str) else 0


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-4)


def is_alike(a: object, b: object) -> bool:
    """Return whether two forms are equal, up to the digits with which exporters write constants."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_alike, a, b))
    return a == b or (isinstance(a, float) and isinstance(b, float) and _close(a, b))


def _power(base: Form, exponent: Form) -> Form:
    if exponent[0] != "number" or exponent[1] not in (1, 2, 3):
        return ("Pow", base, exponent)
    return product(*[base] * int(exponent[1]))


def _quotient(a: Form, b: Form) -> Form:
    return product(a, number(1 / b[1])) if b[0] == "number" and b[1] else ("/", a, b)


FORMS: dict[str, Callable[..., Form]] = {
    "Mul": product,
    "Add": total,
    "Sub": lambda a, b: total(a, product(number(-1), b)),
    "Div": _quotient,
    "Neg": lambda a: product(number(-1), a),
    "Pow": _power,
    **{
        name: (lambda title: lambda *parts: (title, *parts))(name)
        for name in (
            "Sigmoid",
            "Tanh",
            "Erf",
            "HardSigmoid",
            "Clip",
            "Softplus",
            "Where",
            "Greater",
            "Max",
            "Min",
            "Relu",
        )
    },
}
"""The forms of ONNX operators in an expression, from the forms of their inputs."""

_SHIFTED = ("Clip", total(X, number(3)), number(0), number(6))
_HARD = product(number(1 / 6), _SHIFTED)
_NORMAL = total(number(1), ("Erf", product(number(math.sqrt(0.5)), X)))
_INNER = total(X, product(number(0.044715), X, X, X))
_CUBIC = ("Tanh", product(number(math.sqrt(2 / math.pi)), _INNER))
PATTERNS: tuple[tuple[Form, Operation], ...] = (
    (product(X, ("Sigmoid", X)), SiLU()),
    (product(X, ("Tanh", ("Softplus", X))), Mish()),
    (product(X, ("HardSigmoid", X)), Hardswish()),
    (product(X, _HARD), Hardswish()),
    (product(X, ("Clip", total(number(0.5), product(number(1 / 6), X)), number(0), number(1))), Hardswish()),
    (_HARD, Hardsigmoid()),
    (("Clip", total(number(0.5), product(number(1 / 6), X)), number(0), number(1)), Hardsigmoid()),
    (product(number(0.5), X, _NORMAL), GELU()),
    (product(number(0.5), X, total(number(1), _CUBIC)), GELU("tanh")),
    (("Min", ("Max", X, number(0)), number(6)), ReLU6()),
    (("Min", ("Relu", X), number(6)), ReLU6()),
)
"""The forms of the activations that exporters write out."""

ANCHORS = ("Mul", "Div", "Clip", "Where", "Min", "Max")
"""Operators at which an activation may end."""


class Expressions:
    """The expressions behind the nodes of a file, as far as they are functions of single values."""

    def __init__(self, makers: dict[str, OnnxNode], values: dict[str, OnnxValue]) -> None:
        self._makers, self._values, self._left = makers, values, MOST_STEPS

    def activation(self, node: OnnxNode) -> tuple[Operation, str] | None:
        """Return the activation that ends in a node, and the name of the value that it is a function of, or None."""
        for leaf in self._leaves(node):
            try:
                form = self._of_node(node, leaf, [LARGEST], DEEPEST)
            except GraphError:
                continue
            for pattern, op in PATTERNS:
                if is_alike(form, pattern):
                    return op, leaf
            if (found := _softplus(form) or _leaky(form)) is not None:
                return found, leaf
        return None

    def _leaves(self, node: OnnxNode) -> Iterator[str]:
        """Yield the names of values above a node that are not constants, the nearest first."""
        level, seen = list(node.inputs), set[str]()
        for _ in range(LEVELS):
            above = list[str]()
            for name in level:
                if name in seen or not name or isinstance(self._values.get(name), Constant):
                    continue
                seen.add(name)
                yield name
                maker = self._makers.get(name)
                above += maker.inputs if maker is not None and maker.operator in FORMS else ()
            if not above or len(seen) > MOST_LEAVES:
                return
            level = above

    def _form(self, name: str, leaf: str, left: list[int], depth: int) -> Form:
        left[0] -= 1
        self._left -= 1
        found = self._values.get(name)
        if name == leaf:
            return X
        if isinstance(found, Constant) and found.array.size == 1 and found.array.dtype.kind == "f":
            return number(float(found.array.reshape(())))
        if min(left[0], self._left) < 0 or depth == 0 or name not in self._makers:
            raise GraphError(f"{name}; expected an expression of one value")
        return self._of_node(self._makers[name], leaf, left, depth - 1)

    def _of_node(self, node: OnnxNode, leaf: str, left: list[int], depth: int) -> Form:
        if node.operator not in FORMS:
            raise GraphError(f"{node}; expected a function of single values")
        parts = [self._form(name, leaf, left, depth) for name in node.inputs if name]
        if node.operator == "Clip":
            parts += [number(node.attributes[name]) for name in ("min", "max") if name in node.attributes]
        if node.operator == "HardSigmoid":
            slope, middle = (node.attributes.get(name, default) for name, default in (("alpha", 0.2), ("beta", 0.5)))
            if not _close(slope, 1 / 6) or middle != 0.5:
                raise GraphError(f"{node}; expected alpha=1/6")
        try:
            return FORMS[node.operator](*parts)
        except (TypeError, OverflowError, ZeroDivisionError) as error:
            raise GraphError(f"{node}: {error}") from None


def _softplus(form: Form) -> Softplus | None:
    """Return log(1 + e^(beta x)) / beta, with x itself beyond a threshold, or None for another form."""
    if form[0] != "Where" or len(form) != 4 or form[2] != X or form[1][0] != "Greater":
        return None
    _, scaled, threshold = form[1]
    beta = 1.0 if scaled == X else scaled[1] if scaled[0] == "*" and scaled[2] == (X,) else None
    if beta is None or beta <= 0 or threshold[0] != "number" or threshold[1] <= 0:
        return None
    is_smooth = is_alike(form[3], product(number(1 / beta), ("Softplus", scaled)))
    return Softplus(beta, threshold[1]) if is_smooth else None


def _leaky(form: Form) -> LeakyReLU | None:
    """Return the larger one of x and a share of x, or None for another form."""
    if form[0] != "Max" or len(form) != 3 or X not in form[1:]:
        return None
    other = form[2] if form[1] == X else form[1]
    is_share = other[0] == "*" and other[2] == (X,) and 0 < other[1] < 1
    return LeakyReLU(other[1]) if is_share else None
