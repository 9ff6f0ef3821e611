"""The fields of every launch are those of its kernel's struct, in order and by type. Nothing is launched here."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from edgefl.kernels.cuda.launch import Ids, KernelArray, PlannedLaunch, Scratch
from edgefl.kernels.table import FAMILIES, TABLE

from ..cases import ordinary
from . import standin

SOURCES = standin.ROOT / "csrc" / "cuda"
POINTERS = {
    "float": "float32", "double": "float64", "int": "int32", "unsigned": "uint32", "Byte": "uint8", "Size": "int64",
}  # fmt: skip
ANY_POINTERS = ("Byte", "Word", "void")  # of arrays of any type
MODULES = {"norm": ("norm", "norm_relu")}
ON_THE_HOST = {"mask", "narrow"}
UNREAD = {"convolution_flat", "convolution_weight_flat", "sgd", "adam"}  # kernels of templates and macros
OF_BITS = {"keep_largest", "largest_places"}  # kernels that read floats as integers


class Source(NamedTuple):
    """A file: the fields of its structs, type and name, and the files that it includes."""

    structs: dict[str, list[tuple[str, str]]]
    includes: list[str]
    kernels: dict[str, str]


@lru_cache(None)
def source(name: str) -> Source:
    text = re.sub(r"//.*", "", (SOURCES / name).read_text("utf-8"))
    structs = {
        found[1]: list(fields(found[2])) for found in re.finditer(r"struct (\w+)[^{};]*\{(.*?)\n *\};", text, re.DOTALL)
    }
    kernels = dict(re.findall(r"EFL_KERNEL\((\w+), [^;{]*?(\w+)\) \{", text))
    return Source(structs, re.findall(r'#include "(\w+\.cuh)"', text), kernels)


def fields(body: str) -> Iterator[tuple[str, str]]:
    """Of a struct's lines: one that holds a bracket is no field."""
    for line in filter(lambda line: line.endswith(";") and "(" not in line, map(str.strip, body.split("\n"))):
        match = re.fullmatch(r"((?:const )?(?:unsigned short|[\w:]+)\*?) ([\w*, ]+);", line)
        for field in match[2].split(", ") if match else ():
            yield match[1] + "*" * field.startswith("*"), field


def struct(name: str, file: str) -> tuple[list[tuple[str, str]], str] | None:
    """The fields of a struct as a file sees it, and the file that they are in."""
    if name in source(file).structs:
        return source(file).structs[name], file
    return next((found for each in source(file).includes if (found := struct(name, each))), None)


def expected(kernel: str) -> list[str]:
    file = next(path.name for path in sorted(SOURCES.glob("*.cuh")) if kernel in source(path.name).kernels)
    return list(words(source(file).kernels[kernel], file))


def words(kind: str, file: str) -> Iterator[str]:
    """A field's type as the fields of 8 bytes that a launch gives."""
    if found := struct(kind, file):
        for inner, _ in found[0]:
            yield from words(inner, found[1])
    else:
        yield kind.removeprefix("const ")


def given(launch: PlannedLaunch) -> Iterator[object]:
    for field in launch.fields:
        yield from (field.list, field.count) if isinstance(field, Ids) else (field,)


def fits(value: object, kind: str) -> bool:
    if not kind.endswith("*"):
        return isinstance(value, float) if kind == "double" else isinstance(value, int) and kind == "Size"
    if isinstance(value, KernelArray) and kind[:-1] in POINTERS and kind[:-1] not in ANY_POINTERS:
        return value.dtype == np.dtype(POINTERS[kind[:-1]])
    return value is None or isinstance(value, KernelArray | Scratch)


def launches() -> Iterator[PlannedLaunch]:
    """Those of the ordinary call of every operation that has kernels of its own."""
    for family, rows in FAMILIES.items():
        if family in ON_THE_HOST:
            continue
        modules = [importlib.import_module(f"edgefl.kernels.cuda.{name}") for name in MODULES.get(family, (family,))]
        for row in rows:
            body = next((vars(module)[row.name] for module in modules if row.name in vars(module)), None)
            if body is not None:
                args = ordinary(row.name).args().values()
                yield from body(*(KernelArray(value) if isinstance(value, np.ndarray) else value for value in args))


def test_fields_of_launches_are_those_of_their_structs() -> None:
    wrong, tried = [], set()
    for launch in launches():
        if launch.kernel in UNREAD | OF_BITS:
            continue
        kinds, values = expected(launch.kernel), list(given(launch))
        tried.add(launch.kernel)
        if len(values) != len(kinds) or not all(map(fits, values, kinds)):
            wrong.append((launch.kernel, kinds, values))
    assert wrong == []
    assert len(tried) > 60


@pytest.mark.parametrize(("value", "kind"), [(1, "double"), (1.0, "Size"), (None, "Size"), (np.float32(1), "double")])
def test_a_number_of_another_type_does_not_fit(value: object, kind: str) -> None:
    assert not fits(value, kind)


def test_every_operation_is_in_a_family() -> None:
    assert {row.name for rows in FAMILIES.values() for row in rows} == set(TABLE)
