"""cuda/arguments.cuh: the structs of the CUDA kernels' arguments, from the rows of edgefl/kernels/cuda.

A row is a declare({...}) in a file of that folder. The files import numpy, so their text is read, and they are not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from .rows import ROOT, beside, table

FOLDER = ROOT / "edgefl" / "kernels" / "cuda"
NUMBERS = {"int": "Size", "real": "double"}
TOP = """\
// Generated from edgefl/kernels/cuda: the structs of the kernels' arguments, whose fields have 8 bytes. A kernel is
// given KERNEL_args. Included by csrc/cuda/portable.cuh.
#pragma once

// Calls of one kernel in one launch. Blocks first[i] to before first[i + 1] are call i's. Behind the last call all are
// the number of blocks.
template <class Args, int CALLS>
struct Several {
    Size first[CALLS + 1];
    Args of[CALLS];
};
"""


@lru_cache(None)
def structs() -> ModuleType:
    """Return edgefl.kernels.cuda.structs with the rows of all files."""
    module = beside("cuda.structs")
    for path in sorted(FOLDER.glob("*.py")):
        for row in filter(_is_rows, ast.parse(path.read_text("utf-8")).body):
            module.declare(ast.literal_eval(row.value.args[0]))
    return module


def text() -> str:
    rows = structs().structs()
    ordered: dict[str, str] = {}
    for name in rows:
        _define(name, ordered)
    kernels = {kernel: (struct, count) for struct, row in rows.items() for kernel, count in row.kernels.items()}
    uses = [
        f"using {kernel}_args = {struct if count == 1 else f'Several<{struct}, {count}>'};\n"
        for kernel, (struct, count) in sorted(kernels.items())
        if struct != f"{kernel}_args"
    ]
    numbers = [_numbers("update::AdamSettings", "double", table().ADAM)]
    numbers += [_numbers("update::AdamRates", "float", table().ADAM_RATES)]
    return "\n".join([TOP, *map(_forward, sorted(set(_foreign()))), *numbers, *ordered.values(), "".join(uses)])


def _is_rows(node: Any) -> bool:
    """Return whether a statement is declare({...})."""
    call = node.value if isinstance(node, ast.Expr) else None
    is_declare = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "declare"
    return is_declare and isinstance(call.args[0], ast.Dict)


def _define(name: str, ordered: dict[str, str]) -> None:
    """Add the definition of a struct behind the definitions of the structs that it contains."""
    if name in ordered:
        return
    for member in structs().members(name):
        if member.is_struct:
            _define(member.type, ordered)
    lines = [f"struct {name.rpartition('::')[2]} {{", *map(_line, structs().members(name)), "};"]
    ordered[name] = _inside(name, "\n".join(lines))


def _line(member: Any) -> str:
    if member.is_array:
        kind = structs().CPP.get(member.type, member.type)
        return f"    {'' if member.is_written else 'const '}{kind}* {member.name};"
    return f"    {NUMBERS.get(member.type, member.type)} {member.name};"


def _numbers(name: str, kind: str, fields: Sequence[str]) -> str:
    """Return the struct of an array of numbers that the table names."""
    return _inside(name, f"struct {name.rpartition('::')[2]} {{\n    {kind} {', '.join(fields)};\n}};")


def _foreign() -> Iterator[str]:
    """Yield the structs of the kernels' own that fields point to."""
    for name in structs().structs():
        for member in structs().members(name):
            if member.is_array and member.type not in structs().CPP:
                yield member.type


def _forward(name: str) -> str:
    return _inside(name, f"struct {name.rpartition('::')[2]};")


def _inside(name: str, text: str) -> str:
    """Return the text in the namespace of the name."""
    space = name.rpartition("::")[0]
    return f"namespace {space} {{\n{text}\n}}  // namespace {space}\n" if space else f"{text}\n"
