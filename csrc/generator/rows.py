"""The table of operations, loaded by its path, and its rows as parameters of C functions. It writes no C++ files."""

from __future__ import annotations

import importlib
import re
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc" / "edgefl.h"
LETTERS = {"B": "batch", "C": "channels"}  # the names of extents whose word does not say another
VALUES = {
    "float": "float", "word": "void", "uint8": "efl_uint8", "int32": "efl_int32", "uint32": "efl_uint32",
    "int64": "efl_int64", "float64": "double", "any": "void",
}  # fmt: skip
SCALARS = {"real": "float", "int": "efl_int64", "flag": "efl_int32"}
TYPES = {"int32": "efl_int32", "double": "double"}  # what a word may say instead


@lru_cache(None)
def table() -> ModuleType:
    """Import edgefl.kernels.table without edgefl.kernels, which needs numpy."""
    package = ModuleType("operations_of_edgefl")
    package.__path__ = [str(ROOT / "edgefl" / "kernels")]
    sys.modules[package.__name__] = package
    return importlib.import_module(f"{package.__name__}.table")


def beside(name: str) -> ModuleType:
    """Import another module of the table's folder."""
    return importlib.import_module(table().__name__.replace(".table", f".{name}"))


def families() -> dict[str, tuple[Any, ...]]:
    return table().FAMILIES  # type: ignore[no-any-return]


@lru_cache(None)
def structs() -> dict[str, list[str]]:
    """Return the names of the fields of each struct in the header."""
    return {name: re.findall(r"(\w+)\s*(?:[,;]|$)", body) for name, body in _struct_bodies().items()}


def narrow_fields(struct: str) -> set[str]:
    """Return the names of the fields of a struct that have 32 bits."""
    lines = re.findall(r"efl_int32 ([^;]*);", _struct_bodies()[struct])
    return {field for line in lines for field in re.findall(r"\w+", line)}


@lru_cache(None)
def _struct_bodies() -> dict[str, str]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text("utf-8"), flags=re.DOTALL)
    found = re.findall(r"typedef struct \{(.*?)\} (\w+);", text, flags=re.DOTALL)
    return {name: body for body, name in found}


class Parameter(NamedTuple):
    """One parameter of a C function.

    value   expression in the words of the row
    fields  names and values of the fields, for a struct of values
    """

    name: str
    type: str
    value: str
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def struct(self) -> str:
        """The name of the struct to which the parameter points, or an empty text."""
        base = self.type.removeprefix("const ").rstrip("*")
        return base if base in structs() and base != "efl_index" else ""


class Function:
    """The C function of a row. A row with pixels has a function for each type of pixels."""

    def __init__(self, row: Any, pixels: str = "") -> None:
        self.row, self.pixels = row, pixels
        self.arguments = {argument.name: argument for argument in row.arguments}
        self.parameters = [self._parameter(word) for word in row.c.order.split()]
        names = [parameter.name for parameter in self.parameters]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(
                f"{row.name}: C parameters {sorted(twice)} given twice; expected name=value for one of them"
            )

    @property
    def symbol(self) -> str:
        """The name without efl_. It ends with the type of its values, if they are float32 or words of 4 bytes."""
        types = {argument.type for argument in self.row.arguments if argument.is_array}
        if self.row.name in NO_SUFFIX or not types & {"float", "word"}:
            return self.row.name  # type: ignore[no-any-return]
        return f"{self.row.name}_{self.pixels or ('32' if 'word' in types else 'f32')}"

    def _parameter(self, word: str) -> Parameter:
        match = re.fullmatch(r"(?:(\w+)=)?(?:(efl_\w+)\((.*)\)|([^:]+)(?::(\w+))?)", word)
        if not match:
            raise ValueError(f"{self.row.name}: C parameter {word!r}; expected [name=]value[:type]")
        name, struct, values, value, type_word = match.groups()
        if struct:
            return Parameter(name, f"const {struct}*", "", tuple(self._fields(struct, values.split(","))))
        return Parameter(name or LETTERS.get(value, value), self._type(value, type_word), value)

    def _fields(self, struct: str, values: list[str]) -> list[tuple[str, str]]:
        """Return the fields of a struct with their values. A pair fills two fields."""
        each = []
        for value in values:
            is_pair = value in self.arguments and self.arguments[value].type == "pair"
            each += [f"{value}[0]", f"{value}[1]"] if is_pair else [value]
        if len(each) != len(structs()[struct]):
            raise ValueError(f"{self.row.name}: {len(each)} values of {struct}; expected {len(structs()[struct])}")
        return list(zip(structs()[struct], each))

    def _type(self, value: str, word: str | None) -> str:
        argument = self.arguments.get(value)
        if word in structs():
            return f"{word}*" if argument and argument.is_written else f"const {word}*"
        if word:
            return TYPES[word]
        if argument is None:
            return "efl_int64"
        if argument.is_ids and argument.type == "int32":
            return "efl_index"
        if argument.is_array or argument.is_ids:
            return f"{'' if argument.is_written else 'const '}{self.element(argument)}*"
        return SCALARS[argument.type]

    def element(self, argument: Any) -> str:
        kind = argument.type
        return {"u8": "efl_uint8", "f32": "float"}[self.pixels] if kind == "pixels" else VALUES[kind]

    # ---- the words of the row as C has them

    def value(self, name: str) -> str | None:
        """Return an extent, a number or an array of the row as its parameter, or None if C is not given it.

        The extent `inner` may be the product of H and W.
        """
        for parameter in self.parameters:
            if parameter.value == name:
                return parameter.name
            for field, value in parameter.fields:
                if value == name:
                    return f"{parameter.name}->{field}"
        height, width = (self.value("H"), self.value("W")) if name == "inner" else (None, None)
        return f"({height} * {width})" if height and width else None

    def item(self, name: str, place: int) -> str | None:
        """Return a value of an array or of a pair as C++, or None if C is not given it."""
        if pair := self.value(f"{name}[{place}]"):
            return pair
        parameter = next((each for each in self.parameters if each.value == name), None)
        if parameter is None:
            return None
        if parameter.struct:
            return f"{parameter.name}->{structs()[parameter.struct][place]}"
        return f"{parameter.name}[{place}]"

    def extent_of(self, argument: Any) -> str:
        """Return the extent below which ids have to be. Ids among other ids have the extent of these."""
        below = argument.below
        outer = self.arguments.get(below)
        return self.extent_of(outer) if outer is not None and outer.is_ids else below


NO_SUFFIX = {"clip_scale", "begin_adam"}  # what they read is float64


def functions(row: Any) -> list[Function]:
    """Return the C functions of a row: no function, one, or one for each type of its pixels."""
    if row.c is None:
        return []
    if any(argument.type == "pixels" for argument in row.arguments):
        return [Function(row, "u8"), Function(row, "f32")]
    return [Function(row)]
