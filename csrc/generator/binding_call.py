"""The call that remains when arguments have been read: a closure over the parameters of the C function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .checks import rules_of, translation
from .reading import Reading
from .rows import Function, Parameter, narrow_fields, structs


def made_call(reading: Reading, functions: list[Function]) -> list[str]:
    """Return the lines of `return [...] { return efl_...; };`, with a choice by the type of pixels."""
    lines = []
    for function in functions:
        pixels = next((a.name for a in reading.row.arguments if a.type == "pixels"), None)
        choice = f"if ({pixels}_are_bytes) " if function.pixels == "u8" else ""
        lines += [f"{choice}{line}" if at == 0 else line for at, line in enumerate(_closure(reading, function))]
    return lines


def _closure(reading: Reading, function: Function) -> list[str]:
    held = ", ".join(f"{_held_name(p)} = {_held(reading, function, p)}" for p in function.parameters)
    inside = [line for parameter in function.parameters for line in _opened(reading, parameter)]
    inside += [line for rule in rules_of(reading.row, are_run=True) for line in _run_rule(function, rule)]
    call = f"efl_{function.symbol}({', '.join(parameter.name for parameter in function.parameters)})"
    inside += _closed(reading, function, call)
    return [f"return [{held}] {{", *(f"    {line}" for line in inside), "};"]


def _held_name(parameter: Parameter) -> str:
    return f"{parameter.name}_" if parameter.fields or parameter.struct else parameter.name


def _held(reading: Reading, function: Function, parameter: Parameter) -> str:
    if parameter.fields:
        return f"{parameter.struct}{{{', '.join(_fields(reading, parameter))}}}"
    argument = reading.arguments.get(parameter.value)
    if argument is None:
        return _number(reading, parameter.value)
    if argument.is_array or argument.type == "uint32":
        return f"{parameter.value}.as<{function.element(argument)}>()"
    return f"{parameter.type}({parameter.value})" if parameter.type != "efl_index" else parameter.value


def _fields(reading: Reading, parameter: Parameter) -> Iterator[str]:
    """Yield the values of a struct's fields. Fields of 32 bits have a cast, because clang asks for it."""
    narrow = narrow_fields(parameter.struct)
    for field, value in parameter.fields:
        yield f"efl_int32({value})" if field in narrow else _number(reading, value)


def _number(reading: Reading, value: str) -> str:
    """Return an extent, a product or difference of extents, a number, or a value of a pair, as C++."""
    if value.startswith("len("):
        return reading.extent(value[4:-1])
    argument = reading.arguments.get(value)
    if argument is not None and argument.type == "flag":
        return f"efl_int32({value})"
    return value


def _opened(reading: Reading, parameter: Parameter) -> list[str]:
    """Return the lines that make the struct of a parameter inside the closure. Its contents are read at every run."""
    if parameter.fields:
        return [f"{parameter.type} const {parameter.name} = &{parameter.name}_;"]
    if not parameter.struct:
        return []
    size = f"sizeof({parameter.struct})"
    lines = [
        f"static_assert({size} == {len(structs()[parameter.struct])} * sizeof(*{parameter.name}_));",
        f"{parameter.struct} {parameter.name}_values;",
    ]
    argument = reading.arguments[parameter.value]
    if argument.access != "!":
        lines.append(f"std::memcpy(&{parameter.name}_values, {parameter.name}_, {size});")
    return [*lines, f"{parameter.struct}* const {parameter.name} = &{parameter.name}_values;"]


def _closed(reading: Reading, function: Function, call: str) -> list[str]:
    """Return the lines of the call. They copy a struct that the call wrote back into its array."""
    written = [p for p in function.parameters if p.struct and not p.fields and not p.type.startswith("const")]
    if not written:
        return [f"return {call};"]
    copies = [f"if (!status) std::memcpy({p.name}_, {p.name}, sizeof({p.struct}));" for p in written]
    return [f"const efl_status status = {call};", *copies, "return status;"]


def _run_rule(function: Function, rule: Any) -> list[str]:
    cpp = translation(function)
    argument = function.arguments[rule.name]
    shown = '{"value None"}' if argument.is_optional else '{"other values"}'
    if "[" in rule.target:
        shown = f'{{"value ", {cpp(rule.target)}}}'
    refusal = f'refuse_run("{function.row.name}", "{rule.name}", {shown}, {cpp.expectation(rule.expected)})'
    return [f"if (!{cpp(rule.test)}) {refusal};"]
