"""The rules of rows as values. argument_rules.py makes checks in Python of them, and csrc/generator checks in C++.

A rule says what letters cannot. It is an expression, from which the checks of Python and of C++ are made, or the name
of a function in argument_rules.py:

    x: B * inner >= 2: at least 2 values per channel   what is refused unless the expression holds, and the expectation
    first: 0 <= first <= D - C: 0 to {D - C}           braces in an expectation are expressions, too
    bytes = (inner + 7) // 8                           an extent of DERIVED
    halved                                             the function of this name

Letters are extents, `inner` is the product of *, an integer, a real, a pair or a flag is its value, and ids are as many
as they select. Tags at the end of a rule, in brackets, are in TAGS.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TAGS = {"run", "arrays", "shape", "argument"}
"""The words that may stand at the end of a rule.

run       the rule reads contents, and is checked when a call runs
arrays    the rule is about extents that the C function is not given, so the C function does not check it
shape     the C function returns EFL_BAD_SHAPE, where its usual status is another one
argument  the C function returns EFL_BAD_ARGUMENT, where its usual status is another one

A rule about an array gives a bad shape. A rule about a number or about contents gives a bad argument.
"""


class Rule(NamedTuple):
    """A rule that is an expression. Its target is the argument, or the value of an argument, that a refusal names."""

    target: str
    test: str
    expected: str
    tags: frozenset[str]

    @property
    def name(self) -> str:
        return self.target.split("[")[0]


class DerivedExtent(NamedTuple):
    """A rule that gives an extent."""

    name: str
    value: str


def read_rule(text: str) -> Rule | DerivedExtent | None:
    """Return a rule of a row as a value, or None for the name of a function.

    Raises  ValueError if the text is not a rule.
    """
    if text.isidentifier():
        return None
    if derived := re.fullmatch(r"(\w+) = (.+)", text):
        return DerivedExtent(*derived.groups())
    match = re.fullmatch(r"(\w+(?:\[\d+])?): (.+?): (.+?)((?: \[[a-z]+])*)", text)
    tags = frozenset(re.findall(r"\[([a-z]+)]", match[4])) if match else frozenset({text})
    if match is None or not tags <= TAGS:
        raise ValueError(f"rule {text!r}; expected a name, 'extent = value' or 'argument: expression: expectation'")
    return Rule(match[1], match[2], match[3], tags)
