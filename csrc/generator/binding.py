"""binding_FAMILY.cc: how the arguments of an operation are read from Python, and the family's list of operations.

The arguments are read in the row's order, then compared: first the arrays that tell extents, then what divides, the
other shapes, the rules. What remains is a call that holds the parameters of the C function.
"""

from __future__ import annotations

import re
from typing import Any

from . import named_rules
from .binding_call import made_call
from .expressions import Translation
from .reading import Reading, shape_checks, told
from .rows import Parameter, beside, families, functions

TOP = """// Generated from edgefl/kernels/table.py: {family}. Reads the arguments of its operations from Python.
#include <cstring>
#include <stdexcept>

#include "python/call.h"
{more}
namespace efl {{
namespace reading {{
"""

END = """
}}  // namespace reading

const std::vector<Op> {family}_ops = {{
{ops}}};

}}  // namespace efl
"""


def text(family: str) -> str:
    rows = families()[family]
    by_hand = [row for row in rows if not is_made(row)]
    made = "".join(f"\n{function(row)}" for row in rows if is_made(row))
    hand = "".join(f"\nCall {row.name}(Args&);" for row in by_hand) + ("\n" if by_hand else "")
    ops = "".join(f'    {{.name = "{row.name}", .make = reading::{row.name}}},\n' for row in rows)
    uses_windows = re.search(r"Window|HalvedPlanes|expect_code_cells", made)
    top = TOP.format(family=family, more=named_rules.INCLUDE if uses_windows else "")
    return top + hand + made + END.format(family=family, ops=ops)


def is_made(row: Any) -> bool:
    return row.c is not None and "binding" not in row.c.hand


def function(row: Any) -> str:
    """Return the C++ function that reads the arguments of an operation."""
    reading = Reading(row)
    lines = [_read(argument) for argument in row.arguments]
    lines += told(reading)
    lines += _divisors(reading)
    lines += [line for array in reading.plain for line in shape_checks(reading, array)]
    lines += _rules(reading, functions(row)[0].parameters)
    lines += [line for array in reading.derived for line in shape_checks(reading, array)]
    call = made_call(reading, functions(row))
    kept = _without_unused(lines, call)
    body = "".join(f"    {line}\n" for line in [*kept, *call])
    return f"Call {row.name}(Args& given) {{\n{body}}}\n"


def _without_unused(lines: list[str], call: list[str]) -> list[str]:
    """Return the lines without the extents that no later line reads."""
    kept: list[str] = []
    for line in reversed(lines):
        found = re.match(r"const (?:efl_int64|efl_int32) (\w+) = (?!given)", line)
        if not found or re.search(rf"\b{found[1]}\b", "\n".join([*kept, *call])):
            kept.insert(0, line)
    return kept


# ---- one argument ---------------------------------------------------------------------------------------------------


def _read(argument: Any) -> str:
    name, quoted = argument.name, f'"{argument.name}"'
    if argument.is_array or argument.type == "uint32":
        return _array(argument)
    if argument.is_ids:
        return f"const efl_index {name} = given.index({quoted});"
    reads = {
        "real": f"const float {name} = given.real({quoted});",
        "int": f"const efl_int64 {name} = given.integer({quoted});",
        "flag": f"const efl_int32 {name} = given.integer({quoted}) != 0;",
        "pair": f"efl_int64 {name}[2]; given.pair({quoted}, {name}, {name} + 1);",
    }
    return reads[argument.type]


def _array(argument: Any) -> str:
    name, kind = argument.name, argument.type
    access = "Access::out" if argument.is_written else "Access::in"
    or_none = "_or_none" if argument.is_optional else ""
    if argument.extents is not None and argument.below:  # ids in any order
        return f'const View {name} = given.ids("{name}");'
    if kind == "pixels":
        return f'bool {name}_are_bytes = false; const View {name} = given.pixels("{name}", &{name}_are_bytes);'
    if kind == "float":
        return f'const View {name} = given.f32{or_none}("{name}", {access});'
    if kind in ("word", "any"):
        return f'const View {name} = given.{"word" if kind == "word" else "memory"}("{name}", {access});'
    return f'const View {name} = given.typed{or_none}("{name}", {access}, Type::{kind});'


# ---- what is between arguments --------------------------------------------------------------------------------------


def _divisors(reading: Reading) -> list[str]:
    return [
        f'given.expect_divisor("{argument.name}", {argument.name}, {of});'
        for argument in reading.row.arguments
        for of in map(reading.extent, argument.divides)
    ]


def _rules(reading: Reading, parameters: list[Parameter]) -> list[str]:
    """Return the lines of the rules that do not read contents, in the order of the row."""
    cpp = Translation(reading.name, reading.item)
    lines = []
    for text in reading.row.rules:
        rule = beside("rule_text").read_rule(text)
        if rule is None:
            lines += named_rules.NAMED[text](reading, parameters)
        elif not hasattr(rule, "tags"):
            lines.append(f"const efl_int64 {rule.name} = {cpp(rule.value)};")
        elif "run" not in rule.tags:
            refusal = f'given.reject("{rule.name}", {reading.shown(rule)}, {cpp.expectation(rule.expected)})'
            lines.append(f"if (!{cpp(rule.test)}) {refusal};")
    return lines
