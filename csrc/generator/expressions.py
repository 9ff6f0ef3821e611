"""Expressions of rules as C++: the words of Python that a rule may use, with names that a caller translates."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.And: "&&", ast.Or: "||",
}  # fmt: skip

Name = Callable[[str], str]
Item = Callable[[str, int], str]


class UnknownNameError(ValueError):
    """A name in an expression that has no C++ in the place of the expression."""


class Translation:
    """A translation of expressions into C++.

    name  returns the C++ of a name
    item  returns the C++ of the value at a place of a name
    """

    def __init__(self, name: Name, item: Item) -> None:
        self._name, self._item = name, item

    def __call__(self, expression: str) -> str:
        return self._text(ast.parse(expression, mode="eval").body)

    def expectation(self, text: str) -> str:
        """Return an expectation, whose braces are expressions, as an initialiser of efl::Words."""
        parts = enumerate(re.split(r"\{([^{}]*)\}", text))
        words = [self(part) if at % 2 else f'"{part}"' for at, part in parts if part]
        return f"{{{', '.join(words)}}}"

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Constant(value=bool() | int() as value):
                return str(int(value))
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as place)):
                return self._item(name, place)
            case ast.BinOp(left=left, op=op, right=right):
                return f"({self._text(left)} {OPERATORS[type(op)]} {self._text(right)})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {OPERATORS[type(op)]} '.join(map(self._text, values))})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._text(operand)}"
            case ast.Compare(left=left, ops=ops, comparators=rights):
                pairs = zip([left, *rights], ops, rights)
                return f"({' && '.join(self._pair(*pair) for pair in pairs)})"
            case ast.Call(func=ast.Name(id="min"), args=[first, second]):
                return f"std::min<efl_int64>({self._text(first)}, {self._text(second)})"
        raise ValueError(f"expression {ast.unparse(node)!r}; expected names, numbers, + - * // %, comparisons, min")

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        if isinstance(op, ast.Is | ast.IsNot):  # a comparison with None
            return f"{'!' if isinstance(op, ast.Is) else '!!'}{self._text(left)}"
        if isinstance(op, ast.In) and isinstance(right, ast.Tuple):
            return f"({' || '.join(f'{self._text(left)} == {self._text(each)}' for each in right.elts)})"
        return f"{self._text(left)} {OPERATORS[type(op)]} {self._text(right)}"
