"""The gradient of an expression for one of its inputs, as another expression: reverse differentiation by the steps.

The gradient's program also reads input 4, the gradient of the expression's value. Where two arguments of minimum or
maximum are equal, each argument gets half the gradient, and a number gets no gradient, as in torch. The gradient of abs
at 0 is 0. A square root whose argument is 0 has an infinite gradient, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.expression_steps import MOST_INPUTS
from edgefl.models.graph.expression import GRADIENT, ExpressionStep, Steps, parsed, power


class Program(NamedTuple):
    """A program of `evaluate`, its constants, and the numbers of the inputs that it reads."""

    steps: NDArray[np.int32]
    constants: NDArray[np.float64]
    reads: frozenset[int]


@lru_cache(maxsize=256)
def forward(text: str) -> Program:
    """Return the program of an expression."""
    found = parsed(text)
    steps = Steps(found.steps)
    return Program(*steps.program(found.last), frozenset(steps.inputs_of(found.last)))


@lru_cache(maxsize=1024)
def gradient(text: str, number: int) -> Program:
    """Return the program of the gradient for input `number`.

    Raises  GraphError if the program has too many steps.
    """
    found = parsed(text)
    steps = _Differentiated(found.steps)
    last = steps.gradient(found.last, number)
    return Program(*steps.program(last), frozenset(steps.inputs_of(last)))


def check_gradients(text: str) -> None:
    """Raise GraphError for a text that is not an expression, or whose gradients have too many steps."""
    for number in range(parsed(text).arity):
        gradient(text, number)


class _Differentiated(Steps):
    """The steps of an expression, followed by the steps of a gradient. Products with 1 and sums with 0 are left out."""

    def gradient(self, last: int, number: int) -> int:
        own = len(self.steps)
        depends = [MOST_INPUTS + at for at in range(own) if number in self.inputs_of(MOST_INPUTS + at)]
        of: dict[int, int] = {last: GRADIENT}
        for value in sorted(depends, reverse=True):
            if value in of:
                self._pass_on(self.steps[value - MOST_INPUTS], value, of, {number, *depends})
        return of.get(number, self.constant(0.0))

    def _pass_on(self, step: ExpressionStep, value: int, of: dict[int, int], wanted: set[int]) -> None:
        """Add the gradient of a step's value to the gradients of the values that it reads."""
        for place, read in enumerate(step.reads):
            if read in wanted and step.name in PARTIAL:
                part = PARTIAL[step.name](self, of[value], value, step.reads, place)
                of[read] = part if read not in of else self.add("sum", of[read], part)

    def times(self, one: int, other: int) -> int:
        for first, second in ((one, other), (other, one)):
            if self.value_of(first) == 1:
                return second
        return self.add("product", one, other)

    def opposite(self, value: int) -> int:
        return self.times(self.constant(-1.0), value)


def _of_product(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    return steps.times(dy, reads[1 - place])


def _of_quotient(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    part = steps.add("quotient", dy, reads[1])
    return part if place == 0 else steps.opposite(steps.times(part, y))


def _of_extreme(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    own, other = reads[place], reads[1 - place]
    sides = (other, own) if steps.steps[y - MOST_INPUTS].name == "larger" else (own, other)
    if steps.value_of(other) is not None:
        return steps.times(dy, steps.add("less_equal", *sides))
    half = steps.times(steps.constant(0.5), steps.add("equal", own, other))
    return steps.times(dy, steps.add("sum", steps.add("less", *sides), half))


def _of_power(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    exponent = steps.value_of(reads[1])
    assert exponent is not None  # expression.py takes no other exponents
    slope = steps.times(steps.constant(exponent), power(steps, reads[0], exponent - 1))
    return steps.times(dy, slope)


def _of_choice(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    none = steps.constant(0.0)
    if place == 0:
        return none
    return steps.add("choice", reads[0], *((dy, none) if place == 1 else (none, dy)))


def _of_magnitude(steps: _Differentiated, dy: int, y: int, reads: tuple[int, ...], place: int) -> int:
    none = steps.constant(0.0)
    sign = steps.add("difference", steps.add("less", none, reads[0]), steps.add("less", reads[0], none))
    return steps.times(dy, sign)


PARTIAL: dict[str, Callable[[_Differentiated, int, int, tuple[int, ...], int], int]] = {
    "sum": lambda steps, dy, y, reads, place: dy,
    "difference": lambda steps, dy, y, reads, place: dy if place == 0 else steps.opposite(dy),
    "product": _of_product,
    "quotient": _of_quotient,
    "larger": _of_extreme,
    "smaller": _of_extreme,
    "power": _of_power,
    "choice": _of_choice,
    "exp": lambda steps, dy, y, reads, place: steps.times(dy, y),
    "log": lambda steps, dy, y, reads, place: steps.add("quotient", dy, reads[0]),
    "sqrt": lambda steps, dy, y, reads, place: steps.add("quotient", steps.times(dy, steps.constant(0.5)), y),
    "sin": lambda steps, dy, y, reads, place: steps.times(dy, steps.add("cos", reads[0])),
    "cos": lambda steps, dy, y, reads, place: steps.opposite(steps.times(dy, steps.add("sin", reads[0]))),
    "magnitude": _of_magnitude,
}
"""The gradient of a value that a step reads, by the step's name. Comparisons have no gradient."""
