"""Mutants of expressions of results and of reductions, from the kernel to the graph."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

GRADIENTS = "tests/learning/test_gradients.py -k expressions"
K, L, G = "csrc/kernels/expression.inl.h", "edgefl/learning/lowering/elementwise.py", "edgefl/models/graph/"

MUTANTS = (
    Mutant(
        "expression-last-block",
        K,
        "i < n ? inputs[k][at + i] : 1.0f",
        "inputs[k][at]",
        "the last values of an input are the first value of their block",
        cases("evaluate"),
    ),
    Mutant(
        "expression-choice",
        K,
        "return if_up_to(absolute(a), none, c, b);",
        "return if_up_to(a, none, c, b);",
        "a negative number does not choose",
        cases("evaluate"),
    ),
    Mutant(
        "expression-less-equal",
        K,
        "return if_up_to(a, b, one, none);",
        "return keep_positive(one, sub(b, a));",
        "equal values are not at most each other",
        cases("evaluate"),
    ),
    Mutant(
        "expression-later-step",
        "csrc/core/check.h",
        "step[i] >= given + k",
        "step[i] > given + k",
        "a step may read its own result",
        "tests/kernels/test_expressions.py",
    ),
    Mutant(
        "reduce-scale",
        K,
        "mul(sums[i], set1(scale))",
        "sums[i]",
        "sums of rows are not scaled",
        cases("reduce"),
    ),
    Mutant(
        "expression-quotient",
        f"{G}expression_gradient.py",
        "return part if place == 0 else steps.opposite(steps.times(part, y))",
        "return part if place == 0 else steps.opposite(part)",
        "the gradient of a divisor lacks the quotient",
        GRADIENTS,
    ),
    Mutant(
        "expression-branch",
        f"{G}expression_gradient.py",
        "((dy, none) if place == 1 else (none, dy))",
        "((dy, none))",
        "the second branch of a choice gets the gradient of the first",
        GRADIENTS,
    ),
    Mutant(
        "reduce-ties",
        L,
        'SHARE = forward("where(a == b, c / d, 0)")',
        'SHARE = forward("where(a == b, c * d, 0)")',
        "equal extremes get the gradient several times",
        "tests/learning/test_expressions.py",
    ),
    Mutant(
        "expression-all-channels",
        "edgefl/learning/lowering/gradient_needs.py",
        "found = union(found, None if is_sum else",
        "found = union(found, NONE if is_sum else",
        "the gradient of a broadcast input sums channels that nothing has computed",
        GRADIENTS,
    ),
)
