"""Expressions of results, value by value, as text and as the steps of the kernel operation `evaluate`.

The text is a Python expression of the inputs a, b, c and d and of numbers: + - * / **, comparisons, exp, log, sqrt,
sin, cos, abs, minimum, maximum and where. An exponent is a number. A comparison is 1 or 0. The text is read by Python's
own parser and is never run as Python.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import GraphError
from edgefl.kernels.expression_steps import MOST_INPUTS, MOST_STEPS, NUMBERS, STEPS

INPUTS = "abcd"
GRADIENT = MOST_INPUTS - 1  # the number of the input that is the gradient of the result
LONGEST = 500  # characters of an expression
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "sum", ast.Sub: "difference", ast.Mult: "product", ast.Div: "quotient", ast.Pow: "power",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[str, bool, bool]] = {  # step, whether its sides are exchanged, and negated
    ast.Lt: ("less", False, False), ast.LtE: ("less_equal", False, False), ast.Gt: ("less", True, False),
    ast.GtE: ("less_equal", True, False), ast.Eq: ("equal", False, False), ast.NotEq: ("equal", False, True),
}  # fmt: skip
FUNCTIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "abs": "magnitude", "minimum": "smaller",
    "maximum": "larger", "where": "choice",
}  # fmt: skip
EXPECTED = f"inputs {', '.join(INPUTS)}, numbers, + - * / **, comparisons and {', '.join(FUNCTIONS)}"


class ExpressionStep(NamedTuple):
    """A step by its name, with the numbers of the values that it reads. A constant has its value instead."""

    name: str
    reads: tuple[int, ...] = ()
    value: float = 0.0


class Steps:
    """The steps of an expression so far. Equal steps are kept once. Values 0 to 4 are the inputs."""

    def __init__(self, steps: Sequence[ExpressionStep] = ()) -> None:
        self.steps = list(steps)

    def add(self, name: str, *reads: int) -> int:
        """Return the number of the value of a step."""
        return self._add(ExpressionStep(name, reads))

    def constant(self, value: float) -> int:
        return self._add(ExpressionStep("constant", (), value))

    def value_of(self, number: int) -> float | None:
        """Return the value of a constant, or None for another value."""
        step = self.steps[number - MOST_INPUTS] if number >= MOST_INPUTS else None
        return step.value if step and step.name == "constant" else None

    def program(self, last: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the program whose last step is the value `last`, and its constants.

        Raises  GraphError if there are more steps than a program may have.
        """
        needed = sorted(self._needed(last)) if last >= MOST_INPUTS else []
        rows, constants, place = [], list[float](), {number: number for number in range(MOST_INPUTS)}
        if not needed:  # an input itself, plus 0
            return np.array([(0, 0, 0, 0), (NUMBERS["sum"], last, MOST_INPUTS, 0)], np.int32), np.zeros(1)
        for at, number in enumerate(needed):
            step, place[number] = self.steps[number - MOST_INPUTS], MOST_INPUTS + at
            reads = [place[each] for each in step.reads]
            if step.name == "constant":
                reads, constants = [len(constants)], [*constants, step.value]
            rows.append((NUMBERS[step.name], *reads, 0, 0, 0)[:4])
        if len(rows) > MOST_STEPS:
            raise GraphError(f"an expression of {len(rows)} steps; expected at most {MOST_STEPS}")
        return np.array(rows, np.int32), np.array(constants or [0.0])

    def inputs_of(self, last: int) -> set[int]:
        """Return the numbers of the inputs that a value depends on."""
        if last < MOST_INPUTS:
            return {last}
        steps = (self.steps[number - MOST_INPUTS] for number in self._needed(last))
        return {read for step in steps for read in step.reads if read < MOST_INPUTS}

    def _needed(self, last: int) -> set[int]:
        found, open_ones = set[int](), [last]
        while open_ones:
            number = open_ones.pop()
            if number >= MOST_INPUTS and number not in found:
                found.add(number)
                open_ones += self.steps[number - MOST_INPUTS].reads
        return found

    def _add(self, step: ExpressionStep) -> int:
        if step not in self.steps:
            self.steps.append(step)
        return MOST_INPUTS + self.steps.index(step)


class Parsed(NamedTuple):
    """The steps of an expression, the number of its value, and how many inputs it has."""

    steps: tuple[ExpressionStep, ...]
    last: int
    arity: int


@lru_cache(maxsize=256)
def parsed(text: str) -> Parsed:
    """Return the steps of an expression.

    Raises  GraphError that names what an expression may not have.
    """
    if len(text) > LONGEST:
        raise GraphError(f"an expression of {len(text)} characters; expected at most {LONGEST}")
    if not text.isprintable():
        raise GraphError(f"expression {text!r}; expected {EXPECTED}")
    try:
        steps = Steps()
        last = _value(ast.parse(text, mode="eval").body, steps)
    except (SyntaxError, OverflowError, MemoryError, RecursionError):
        raise GraphError(f"expression {text!r}; expected {EXPECTED}") from None
    used = steps.inputs_of(last)
    if used != set(range(len(used))) or not used:
        raise GraphError(f"expression {text!r} reads {[INPUTS[number] for number in sorted(used)]}; expected a, b, ...")
    steps.program(last)
    return Parsed(tuple(steps.steps), last, len(used))


def _value(node: ast.expr, steps: Steps) -> int:
    """Return the number of the value of a part of an expression."""
    match node:
        case ast.Name(id=name) if name in INPUTS and len(name) == 1:
            return INPUTS.index(name)
        case ast.Constant(value=float() | int() as value) if not isinstance(value, bool) and math.isfinite(value):
            return steps.constant(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _value(operand, steps)
            known = steps.value_of(found)
            return steps.add("product", steps.constant(-1.0), found) if known is None else steps.constant(-known)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return power(steps, _value(left, steps), steps.value_of(_value(right, steps)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return steps.add(BINARY[type(op)], _value(left, steps), _value(right, steps))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            name, is_exchanged, is_negated = COMPARISONS[type(op)]
            sides = [_value(left, steps), _value(right, steps)]
            found = steps.add(name, *(sides[::-1] if is_exchanged else sides))
            return steps.add("difference", steps.constant(1.0), found) if is_negated else found
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            if len(args) == STEPS[FUNCTIONS[name]]:
                return steps.add(FUNCTIONS[name], *(_value(each, steps) for each in args))
    raise GraphError(f"expression {ast.unparse(node)!r}; expected {EXPECTED}")


def power(steps: Steps, base: int, exponent: float | None) -> int:
    """Return the number of a power. Products, roots and quotients stand for the usual exponents."""
    if exponent is None:
        raise GraphError("a power whose exponent is no number; expected a number")
    if exponent < 0 and -exponent in (0.5, 1, 2, 3, 4):
        return steps.add("quotient", steps.constant(1.0), power(steps, base, -exponent))
    if exponent == 0.5:
        return steps.add("sqrt", base)
    if exponent in (1, 2, 3, 4):
        found = base
        for _ in range(int(exponent) - 1):
            found = steps.add("product", found, base)
        return found
    return steps.add("power", base, steps.constant(exponent))
