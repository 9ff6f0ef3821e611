"""api_FAMILY.cc: the functions of the C ABI. Each checks its arguments, then calls the table of kernels."""

from __future__ import annotations

import re
from typing import Any

from .expressions import Translation, UnknownNameError
from .layout import called
from .rows import Function, beside, families, functions

TOP = """// Generated from edgefl/kernels/table.py: {family}. Checks every argument, then calls the table.
#include "core/check.h"
#include "core/dispatch.h"

using namespace efl;
"""


def text(family: str) -> str:
    rows = [row for row in families()[family] if row.c and "checks" not in row.c.hand]
    return TOP.format(family=family) + "".join(f"\n{_function(f)}" for row in rows for f in functions(row))


def _function(function: Function) -> str:
    declared = [f"{parameter.type} {parameter.name}" for parameter in function.parameters]
    given = [parameter.name for parameter in function.parameters]
    lines = [called(f"efl_status efl_{function.symbol}", declared, ") {")]
    lines += [f"    {line}" for line in checks(function)]
    lines += [called(f"    return table().{function.symbol}", given, ");"), "}"]
    return "\n".join(lines) + "\n"


def checks(function: Function) -> list[str]:
    """Return the checks of a function in their order.

    The order is: extents and pointers, divisors, rules, the checks of the row itself, ids, rules about contents.
    """
    row = function.row
    first = [_pointers(function), *_extents(function)]
    if not any(parameter.fields for parameter in function.parameters):
        first = [*first[1:], first[0]]
    ids = {parameter.name for parameter in function.parameters if parameter.type == "efl_index"}
    own = {f"EFL_CHECK({check});": bool(ids & set(re.findall(r"\w+", check))) for check in row.c.checks}
    lines = [*first, *_divisors(function), *_rules(function, are_run=False)]
    lines += [check for check, reads_ids in own.items() if not reads_ids]
    lines += _ids(function)
    lines += [check for check, reads_ids in own.items() if reads_ids]
    lines += _rules(function, are_run=True)
    if row.c.empty:
        lines.append(f"if ({function.value(row.c.empty)} == 0) return EFL_OK;")
    return lines


def _pointers(function: Function) -> str:
    optional = {argument.name for argument in function.row.arguments if argument.is_optional}
    names = [p.name for p in function.parameters if p.is_pointer and p.value not in optional]
    return f"EFL_CHECK(pointers({{{', '.join(names)}}}));"


def _extents(function: Function) -> list[str]:
    """Return the checks of the extents that are multiplied with each other, a check for each group."""
    sizes = function.row.c.sizes
    if sizes == "-":
        return []
    if not sizes:
        return [f"EFL_CHECK(extents({{{', '.join(_all_extents(function))}}}));"] if _all_extents(function) else []
    lines = []
    for group in sizes.split("; "):
        words = group.split()
        check = "single_extents" if words[0] == "each" else "extents"
        values = [_size(function, word) for word in words if word != "each"]
        lines.append(f"EFL_CHECK({check}({{{', '.join(values)}}}));")
    return lines


def _size(function: Function, word: str) -> str:
    """Return a parameter, a field, a number or a sum of several as C++."""
    fields = {field: f"{p.name}->{field}" for p in function.parameters for field, _ in p.fields}
    return " + ".join(fields.get(part, part) for part in word.split("+"))


def _all_extents(function: Function) -> list[str]:
    def is_extent(value: str) -> bool:
        return all(part == "inner" or (len(part) == 1 and part.isupper()) for part in value.split("*"))

    names = [p.name for p in function.parameters if p.value and is_extent(p.value)]
    return names + [f"{p.name}->{f}" for p in function.parameters for f, value in p.fields if is_extent(value)]


def _divisors(function: Function) -> list[str]:
    lines = []
    for argument in function.row.arguments:
        for multiple in argument.divides:
            number, of = function.value(argument.name), function.value(multiple)
            if number and of and function.row.c.sizes != "-":
                lines.append(f"if ({number} < 1 || {of} % {number}) return EFL_BAD_ARGUMENT;")
    return lines


def _ids(function: Function) -> list[str]:
    lines = []
    for argument in function.row.arguments:
        if argument.below is None:
            continue
        name, below = function.value(argument.name), function.value(function.extent_of(argument))
        if argument.is_ids and argument.type == "int32":
            lines.append(f"EFL_CHECK(index({name}, {below}));")
        else:
            check = "sorted_ids" if argument.is_ids else "unsorted_ids"
            count = function.value(argument.extents[0] if argument.extents else f"len({argument.name})")
            lines.append(f"EFL_CHECK({check}({name}, {count}, {below}));")
    return lines + _members(function)


def _members(function: Function) -> list[str]:
    """Return the checks of ids that have to be among other ids."""
    among = [a for a in function.row.arguments if a.is_ids and a.below in function.arguments]
    outer = [(a, function.arguments[a.below]) for a in among if function.arguments[a.below].is_ids]
    return [
        f"EFL_CHECK(members({function.value(a.name)}, {function.value(function.extent_of(a))}, "
        f"{function.value(o.name)}, 1));"
        for a, o in outer
    ]


# ---- rules ----------------------------------------------------------------------------------------------------------


def translation(function: Function) -> Translation:
    """Return the translation of rules into the parameters of the C function.

    It raises UnknownNameError for a name that the C function is not given.
    """

    def name(word: str) -> str:
        argument = function.arguments.get(word)
        found = function.value(word)
        if found is None:
            raise UnknownNameError(
                f"{function.row.name}: {word} in a rule; expected what a parameter of C gives, or [arrays]"
            )
        if argument is not None and argument.is_ids:
            return f"selected({found}, {function.value(function.extent_of(argument))})"
        return found

    def item(word: str, place: int) -> str:
        found = function.item(word, place)
        if found is None:
            raise UnknownNameError(
                f"{function.row.name}: {word}[{place}] in a rule; expected what a parameter of C gives"
            )
        return found

    return Translation(name, item)


def status(function: Function, rule: Any) -> str:
    """Return the status of a refusal: the status that the rule names, or the status for the kind of argument."""
    argument = function.arguments[rule.name]
    is_shape = "shape" in rule.tags or (argument.is_array and not {"run", "argument"} & rule.tags)
    return "EFL_BAD_SHAPE" if is_shape else "EFL_BAD_ARGUMENT"


def rules_of(row: Any, are_run: bool) -> list[Any]:
    """Return the rules of a row that are expressions: the rules about contents if `are_run`, else the other rules."""
    read = [beside("rule_text").read_rule(rule) for rule in row.rules]
    return [rule for rule in read if hasattr(rule, "tags") and ("run" in rule.tags) == are_run]


def _rules(function: Function, are_run: bool) -> list[str]:
    cpp = translation(function)
    return [
        f"if (!{cpp(rule.test)}) return {status(function, rule)};"
        for rule in rules_of(function.row, are_run)
        if "arrays" not in rule.tags
    ]
