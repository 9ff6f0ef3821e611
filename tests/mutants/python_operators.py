"""Operators that make mutants of Python: each turns one place of a syntax tree into a small mistake.

An operator is a function of a node and of its source, and yields edits of the text. Annotations, docstrings,
decorators, assertions, formatted texts and the words of an error are left alone, because tests do not pin them down.
`changes` says whether a text with an edit is another program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

FLIPPED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}  # fmt: skip
SWAPPED = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"),
}  # fmt: skip
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin"}
LEFT_ALONE = ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
ALONE_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "bases"}


class Edit(NamedTuple):
    """Bytes from `start` to `end` of a source become `text`."""

    operator: str
    start: int
    end: int
    text: str


class Source:
    """The text of a file, in which nodes of its syntax tree have places. Places are counted in bytes, as ast does."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.tree = ast.parse(text)
        self._lines = [0, *(found.end() for found in re.finditer(rb"\n", self.data))]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends."""
        at = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self._lines[at[0] - 1] + at[1], self._lines[at[2] - 1] + at[3]

    def of(self, node: ast.AST) -> str:
        """Return the text of an expression in brackets, so that it can stand anywhere."""
        start, end = self.span(node)
        text = self.data[start:end].decode()
        return text if isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute) else f"({text})"

    def put(self, operator: str, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts a text in the place of a node."""
        return Edit(operator, *self.span(node), text)

    def between(self, operator: str, left: ast.AST, right: ast.AST, token: str, text: str) -> Iterator[Edit]:
        """Yield the edit of the token that stands between two nodes, with brackets at most beside it."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = re.fullmatch(rf"([\s)]*)({token})([\s(]*)".encode(), self.data[start:end])
        if found:
            yield Edit(operator, start + found.start(2), start + found.end(2), text)


def comparison(node: ast.AST, source: Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    terms = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, terms, terms[1:], strict=False):
        token, other = FLIPPED[type(op)]
        yield from source.between("comparison", left, right, token, other)


def arithmetic(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield another operator in place of an operator, and either operand alone."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in SWAPPED:
            token, other = SWAPPED[type(node.op)]
            yield from source.between("arithmetic", node.left, node.right, re.escape(token), other)
        yield source.put("operand", node, source.of(node.left))
        yield source.put("operand", node, source.of(node.right))
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in SWAPPED:
            token, other = SWAPPED[type(node.op)]
            yield from source.between("arithmetic", node.target, node.value, re.escape(f"{token}="), f"{other}=")
        yield source.put("statement", node, f"{source.of(node.target)} = {source.of(node.value)}")
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield source.put("operand", node, source.of(node.operand))


def logic(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield `or` for `and`, and expressions that lack one of the operands."""
    if not isinstance(node, ast.BoolOp):
        return
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    values = [source.of(value) for value in node.values]
    yield source.put("logic", node, f"({f' {other} '.join(values)})")
    for left_out in range(len(values)):
        yield source.put("logic", node, f"({f' {word} '.join(values[:left_out] + values[left_out + 1 :])})")


def condition(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield a condition that is turned round, one that always holds and one that never holds."""
    tests = node.ifs if isinstance(node, ast.comprehension) else []
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        tests = [node.test]
    for test in tests:
        yield source.put("condition", test, f"(not {source.of(test)})")
        yield source.put("condition", test, "False")
        if not isinstance(node, ast.While):
            yield source.put("condition", test, "True")


def constant(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield a number that is one more or one less, the other truth, and the other one of two names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield source.put("constant", node, str(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield source.put("constant", node, repr(node.value + 1))
        yield source.put("constant", node, f"({node.value - 1!r})")
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in OPPOSITES:
            end = source.span(node.func)[1]
            yield Edit("constant", end - len(name), end, OPPOSITES[name])


def statement(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield `pass` in place of a statement that does something, and the return of no value."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    acts = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await | ast.YieldFrom | ast.Yield)
    leaves = isinstance(node, ast.AugAssign | ast.Raise | ast.Delete | ast.Break | ast.Continue)
    if acts or leaves or any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
        yield source.put("statement", node, "pass")
    elif isinstance(node, ast.Return):
        is_none = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        yield source.put("return", node, "pass" if is_none else "return None")


def argument(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield a call without one of its named arguments, with two arguments exchanged, and its first argument alone."""
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg is not None:
            start, end = source.span(keyword)
            more = re.compile(rb"\s*,\s*").match(source.data, end)
            yield Edit("argument", start, more.end() if more else end, "")
    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    for left, right in pairwise(plain):
        (start, _), (_, end) = source.span(left), source.span(right)
        between = source.data[source.span(left)[1] : source.span(right)[0]].decode()
        if between.strip() == ",":
            yield Edit("exchange", start, end, f"{source.of(right)}, {source.of(left)}")
    if len(plain) == len(node.args) > 0:
        yield source.put("call", node, source.of(plain[0]))


def choice(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield a collection that lacks an item, one in another order, and the whole in place of a slice."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple) and not isinstance(getattr(node, "ctx", None), ast.Store):
        for left, right in pairwise(node.elts):
            (start, end), last = source.span(left), source.span(right)
            if source.data[end : last[0]].decode().strip() == ",":
                yield Edit("item", start, last[0], "")
                yield Edit("item", end, last[1], "")
                yield Edit("exchange", start, last[1], f"{source.of(right)}, {source.of(left)}")
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield source.put("slice", node, source.of(node.value))
    elif isinstance(node, ast.Dict) and node.keys:
        for key, value in zip(node.keys, node.values, strict=True):
            start, end = source.span(key or value)[0] - 2 * (key is None), source.span(value)[1]
            more = re.compile(rb"\s*,\s*").match(source.data, end)
            yield Edit("item", start, more.end() if more else end, "")


OPERATORS: tuple[Callable[[ast.AST, Source], Iterator[Edit]], ...] = (
    comparison, arithmetic, logic, condition, constant, statement, argument, choice,
)  # fmt: skip


def edits(text: str) -> list[Edit]:
    """Return the edits of every operator in a file, from its beginning to its end."""
    source = Source(text)
    found: dict[tuple[int, int, str], Edit] = {}
    for node in _nodes(source.tree):
        for operator in OPERATORS:
            for edit in operator(node, source):
                found.setdefault(edit[1:], edit)
    return [found[key] for key in sorted(found)]


def applied(data: bytes, edit: Edit) -> bytes:
    """Return the bytes of a file with one edit in it."""
    return data[: edit.start] + edit.text.encode() + data[edit.end :]


def changes(text: str, edit: Edit) -> bool:
    """Return whether the text is Python and another program with the edit."""
    try:
        return ast.dump(ast.parse(applied(text.encode(), edit))) != ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return False


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that operators may change, parents first."""
    yield node
    if isinstance(node, LEFT_ALONE) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
        return
    for name, field in ast.iter_fields(node):
        if name in ALONE_FIELDS:
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)
