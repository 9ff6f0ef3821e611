"""Expressions of one another, joined into one: the steps of a file's expression become one operation of the graph."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from edgefl.errors import GraphError
from edgefl.models.graph.expression import INPUTS, LONGEST
from edgefl.models.graph.operations import Elementwise
from edgefl.models.onnx.graph_assembly import NodeDraft

MOST_TRIED = 512  # expressions that a file may have joined, as each try takes about a millisecond


def joined(drafts: Mapping[str, NodeDraft], kept: list[str], output: str) -> tuple[dict[str, NodeDraft], list[str]]:
    """Return the drafts and the names that are left when expressions have taken in the expressions that they read.

    An expression is taken in if nobody else reads its result, and if its result is as large as the other's. In a file
    with more than MOST_TRIED expressions the last ones stay apart.
    """
    found, gone, left = dict(drafts), set[str](), MOST_TRIED
    uses = Counter(name for each in kept for name in drafts[each].inputs) + Counter([output])
    for name in kept:
        while left > 0 and isinstance(found[name].op, Elementwise):
            left -= 1
            if (whole := _with_one_more(found, found[name], uses)) is None:
                break
            found[name], taken = whole
            gone.add(taken)
    return found, [name for name in kept if name not in gone]


def _with_one_more(
    drafts: Mapping[str, NodeDraft], draft: NodeDraft, uses: Mapping[str, int]
) -> tuple[NodeDraft, str] | None:
    """Return the expression with one of the expressions that it reads in it, and the name of the latter, or None."""
    if not isinstance(draft.op, Elementwise):
        return None
    for name in draft.inputs:
        below = drafts.get(name)
        if below is None or not isinstance(below.op, Elementwise) or uses[name] > 1 or below.shape != draft.shape:
            continue
        inputs = list(dict.fromkeys([each for each in draft.inputs if each != name] + list(below.inputs)))
        if len(inputs) > len(INPUTS):
            continue
        letters = {each: ast.Name(INPUTS[at]) for at, each in enumerate(inputs)}
        inner = _with_inputs(below.op, [letters[each] for each in below.inputs])
        text = ast.unparse(_with_inputs(draft.op, [letters.get(each, inner) for each in draft.inputs]))
        try:
            op = Elementwise(text) if len(text) <= LONGEST else None
        except GraphError:
            continue
        if op is not None and op.arity == len(inputs):
            return replace(draft, op=op, inputs=tuple(inputs)), name
    return None


class _Inputs(ast.NodeTransformer):
    """Puts other expressions in the place of the inputs of an expression."""

    def __init__(self, of: Mapping[str, ast.expr]) -> None:
        self._of = of

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Leave the name of the function as it is."""
        return ast.Call(node.func, [self.visit(each) for each in node.args], [])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._of.get(node.id, node)


def _with_inputs(op: Elementwise, inputs: list[ast.expr]) -> ast.expr:
    tree = ast.parse(op.expression, mode="eval").body
    found: ast.expr = _Inputs(dict(zip(INPUTS, inputs, strict=False))).visit(tree)
    return found
