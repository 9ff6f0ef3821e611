"""The expressions of rules as Python functions. csrc/generator/expressions.py has the same words in C++."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

Words = Mapping[str, Any]
Expression = Callable[[Words], Any]

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
}  # fmt: skip


def expression(text: str) -> Expression:
    """Return the function from the values of an expression's names to the value of the expression.

    Raises  ValueError if the expression has other words than rules may have.
    """
    return _made(ast.parse(text, mode="eval").body)


def _made(node: ast.expr) -> Expression:
    match node:
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Constant(value=value):
            return lambda words: value
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=place)):
            return lambda words: words[name][place]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            minus = _made(operand)
            return lambda words: -minus(words)
        case ast.BinOp(left=left, op=op, right=right):
            return _pair(_OPERATORS[type(op)], _made(left), _made(right))
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [_made(each) for each in (left, *rights)]
            return _every([_pair(_OPERATORS[type(op)], *sides[at : at + 2]) for at, op in enumerate(ops)])
        case ast.BoolOp(op=op, values=values):
            each = [_made(value) for value in values]
            return _every(each) if isinstance(op, ast.And) else lambda words: any(value(words) for value in each)
        case ast.Tuple(elts=parts):
            items = [_made(part) for part in parts]
            return lambda words: [item(words) for item in items]
        case ast.Call(func=ast.Name(id="min"), args=[first, second]):
            return _pair(min, _made(first), _made(second))
    raise ValueError(f"expression {ast.unparse(node)!r}; expected names, numbers, + - * //, comparisons, and, or, min")


def _pair(of: Callable[[Any, Any], Any], left: Expression, right: Expression) -> Expression:
    return lambda words: of(left(words), right(words))


def _every(parts: list[Expression]) -> Expression:
    return lambda words: all(part(words) for part in parts)
