"""Conditions on clients, which say among which of them a round's clients are chosen.

A condition is an expression over what the server knows of a client:

    site == 3 and seen < 60 and version >= "0.2"

`seen` is the time in seconds since the server last heard of the client, 0 while its device is connected. `client` is
its id, and `version` is the version of edgefl on its device. Every other name is a tag that the device has told. A
comparison with a tag that the device has not told does not hold. Python's own parser reads the expression, and nothing
but comparisons, `and`, `or`, `not` and lists is taken.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LONGEST = 1000  # characters of a condition
SEEN, CLIENT, VERSION = "seen", "client", "version"
Value = str | float
Test = Callable[[Mapping[str, Value]], bool]
COMPARISONS: dict[type[ast.cmpop], Callable[[int], bool]] = {  # by the order of the two sides: -1, 0 or 1
    ast.Eq: lambda order: order == 0,
    ast.NotEq: lambda order: order != 0,
    ast.Lt: lambda order: order < 0,
    ast.LtE: lambda order: order <= 0,
    ast.Gt: lambda order: order > 0,
    ast.GtE: lambda order: order >= 0,
}
EXPECTED = "expected all, enrolled, seen:SECONDS, or a condition such as 'site == 3 and seen < 60'"


@dataclass(frozen=True)
class ClientChoice:
    """The condition `text` on clients, which `holds` tests for what is known of one client.

    within_s  no client fulfils it that was heard of longer ago than so many seconds. None: the condition does not say
    """

    text: str
    holds: Test = field(compare=False, repr=False)
    within_s: float | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> ClientChoice:
        """Return the condition that the text describes. Raises ValueError naming the part that is not understood."""
        if len(text) > LONGEST:
            raise ValueError(f"a condition of {len(text)} characters; expected at most {LONGEST}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"selection {text!r}; {EXPECTED}") from None
        try:
            return cls(text.strip(), _test(tree.body), _within_s(tree.body))
        except RecursionError:
            raise ValueError(f"selection {text!r} is nested too deeply; {EXPECTED}") from None


def _test(node: ast.expr) -> Test:
    if isinstance(node, ast.BoolOp):
        parts = [_test(each) for each in node.values]
        combined = all if isinstance(node.op, ast.And) else any
        return lambda known: combined(part(known) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _test(node.operand)
        return lambda known: not inner(known)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _comparison(node.left, node.ops[0], node.comparators[0])
    raise ValueError(f"selection {ast.unparse(node)!r}; {EXPECTED}")


def _within_s(node: ast.expr) -> float | None:
    """Return the largest `seen` with which the condition can hold, if a comparison with a number limits it."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        found = [limit for part in node.values if (limit := _within_s(part)) is not None]
        return min(found, default=None)
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Lt | ast.LtE):
        return None
    left, right = node.left, node.comparators[0]
    if isinstance(left, ast.Name) and left.id == SEEN and isinstance(right, ast.Constant):
        return float(right.value) if isinstance(right.value, int | float) else None
    return None


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Test:
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.List | ast.Tuple):
            raise ValueError(f"selection {ast.unparse(right)!r} after in; expected a list such as [1, 2]")
        some, negated = [_comparison(left, ast.Eq(), each) for each in right.elts], isinstance(op, ast.NotIn)
        return lambda known: any(each(known) for each in some) != negated
    if type(op) not in COMPARISONS:
        raise ValueError("selection with 'is'; expected ==, !=, <, <=, >, >= or in")
    one, other, fits = _value(left), _value(right), COMPARISONS[type(op)]

    def compare(known: Mapping[str, Value]) -> bool:
        a, b = one(known), other(known)
        return a is not None and b is not None and fits(_order(a, b))

    return compare


def _value(node: ast.expr) -> Callable[[Mapping[str, Value]], Value | None]:
    """Return the function that finds a value: a constant's, or what is known under a name."""
    if isinstance(node, ast.Name):
        return lambda known: known.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float) and node.value is not True:
        constant: Value = node.value
        return lambda known: constant
    raise ValueError(f"selection {ast.unparse(node)!r}; expected the name of a tag, a number, or a text in quotes")


def _order(a: Value, b: Value) -> int:
    """Return how two values are ordered: as versions if one has two points, else as numbers, or else as texts."""
    is_version = any(str(each).partition("+")[0].count(".") > 1 for each in (a, b))
    first, second = (_numbers(each, is_version) for each in (a, b))
    if first is not None and second is not None:
        return (first > second) - (first < second)
    return (str(a) > str(b)) - (str(a) < str(b))


def _numbers(value: Value, is_version: bool) -> tuple[float, ...] | None:
    """Return the numbers of a version such as 0.10.2, or the one number of a number. Other texts have no numbers."""
    try:
        if not is_version:
            return (float(value),)
        return tuple(float(int(part)) for part in str(value).partition("+")[0].split("."))
    except ValueError:
        return None
