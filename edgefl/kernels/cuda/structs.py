"""The structs that kernels are given: one row each, from which a build makes the C++ and a launch takes the order.

A row stands beside the launches of its kernels, in a family's file, or in table.py if the launch follows from it. The
generator of the build reads the rows from the text of the files, and writes cuda/arguments.cuh. A launch gives the
values by name, and gets them in the row's order.

    declare({
        "Chosen": "channels:Ids all inner",                       a struct that is a field of others
        "elu_forward": "x y count alpha",                         a kernel, whose struct is elu_forward_args
        "prelu_planes of prelu_backward": "dy x sums:float[]! planes inner",
        "PairArgs: add mul": "a b y count",                       one struct of two kernels
        "update::SgdArgs: sgd*16": "...",                         a kernel that takes up to 16 calls at once
    })

A field is its name, or names with commas between, and a :type. A name without a type is an argument of the kernel's
operation, as table.py has it, or else an integer. The operation is the one after `of`, or the kernel's own.

    scale:real       a number                    chosen:Chosen    a struct
    bias:float[]?    an array, or None           y:float[]!       an array that the kernel writes

Arrays are of the table's types, of `bits` (floats that the kernel reads as integers), of `bytes` (of any type), or of
structs of the kernels' own (growth::Cut[]). Braces stand for several names: convolution_{huge,flat}. This module needs
the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..signature import Argument
from ..table import TABLE

CPP = {
    "float": "float", "float64": "double", "uint8": "Byte", "int32": "int", "uint32": "unsigned", "int64": "Size",
    "word": "unsigned", "bits": "int", "any": "void", "pixels": "void", "bytes": "Byte",
}  # fmt: skip
_MEMBER = re.compile(
    r"(?P<names>\w+(?:,\w+)*)(?::(?P<type>(?:\w|::)+)(?P<array>\[\])?(?P<optional>\?)?(?P<written>!)?)?"
)
_HEAD = re.compile(r"(?P<name>(?:\w|::)+)(?:: (?P<kernels>.+?))?(?: of (?P<operation>\w+))?")


class Member(NamedTuple):
    """A field of a struct. `type` is int, real, the type of an array's values, or the name of a struct."""

    name: str
    type: str
    is_array: bool = False
    is_optional: bool = False
    is_written: bool = False

    @property
    def is_struct(self) -> bool:
        """True for a struct that lies in this one."""
        return not self.is_array and self.type not in ("int", "real")


class Struct(NamedTuple):
    """A row: the kernels that take the struct, with how many calls each takes at once, and the text of the fields."""

    name: str
    kernels: Mapping[str, int]
    operation: str | None
    text: str


_STRUCTS: dict[str, Struct] = {}
_STRUCT_OF_KERNEL: dict[str, str] = {}


def declare(rows: Mapping[str, str]) -> None:
    """Add rows. Raises ValueError for a row that cannot be read, and for a struct or a kernel that another row has."""
    for head, text in rows.items():
        struct = _read(head, text)
        known = _STRUCTS.setdefault(struct.name, struct)
        others = {_STRUCT_OF_KERNEL.setdefault(kernel, struct.name) for kernel in struct.kernels} - {struct.name}
        if known != struct or others:
            raise ValueError(f"{head}: declared before; expected one row for a struct, and one struct for a kernel")


def structs() -> Mapping[str, Struct]:
    """Return the rows that have been declared, by the names of the structs."""
    return _STRUCTS


def kernels() -> Mapping[str, str]:
    """Return the names of the structs by the kernels that take them."""
    return _STRUCT_OF_KERNEL


def struct_of(kernel: str) -> str:
    """Return the name of a kernel's struct. Raises ValueError for an unknown kernel."""
    if kernel not in _STRUCT_OF_KERNEL:
        raise ValueError(f"kernel {kernel} has no row; expected one of {', '.join(sorted(_STRUCT_OF_KERNEL))}")
    return _STRUCT_OF_KERNEL[kernel]


def calls_at_once(kernel: str) -> int:
    """Return how many calls a launch of the kernel may have."""
    return _STRUCTS[struct_of(kernel)].kernels[kernel]


@lru_cache(None)
def members(name: str) -> tuple[Member, ...]:
    """Return the fields of a struct in order. Raises ValueError for a field that cannot be read."""
    struct = _STRUCTS[name]
    found = tuple(member for word in struct.text.split() for member in _members(struct, word))
    if unknown := sorted({each.type for each in found if each.is_struct} - set(_STRUCTS)):
        raise ValueError(f"{name}: fields of {', '.join(unknown)}; expected structs that have a row")
    if len({member.name for member in found}) < len(found):
        raise ValueError(f"{name}: {struct.text!r} names a field twice")
    return found


def size(name: str) -> int:
    """Return the number of fields of 8 bytes in a struct."""
    return sum(size(member.type) if member.is_struct else 1 for member in members(name))


def _read(head: str, text: str) -> Struct:
    match = _HEAD.fullmatch(head)
    if not match:
        raise ValueError(
            f"row {head!r}; expected 'Struct', 'kernel [of operation]' or 'Struct: kernels [of operation]'"
        )
    name, listed, operation = match.groups()
    if listed is None and name.islower():
        name, listed = f"{name}_args", name
    words = [each.partition("*") for each in _expanded(listed or "")]
    kernels = {kernel: int(count or 1) for kernel, _, count in words}
    return Struct(name, kernels, operation or next((each for each in kernels if each in TABLE), None), text)


def _expanded(text: str) -> Iterator[str]:
    """Yield the words of a text, a word with braces once for each choice."""
    for word in text.split():
        before, brace, rest = word.partition("{")
        choices, _, after = rest.partition("}")
        if brace:
            for choice in choices.split(","):
                yield from _expanded(before + choice + after)
        else:
            yield word


def _members(struct: Struct, word: str) -> Iterator[Member]:
    match = _MEMBER.fullmatch(word)
    kind = str(match["type"] or "") if match else ""
    if not match or (match["array"] and kind not in CPP and kind.islower()):
        raise ValueError(f"{struct.name}: field {word!r}; expected name:type as edgefl/kernels/cuda/structs.py tells")
    for name in match["names"].split(","):
        if kind:
            yield Member(name, kind, bool(match["array"]), bool(match["optional"]), bool(match["written"]))
        else:
            yield _of_argument(name, _arguments(struct.operation).get(name))


def _arguments(operation: str | None) -> dict[str, Argument]:
    return {each.name: each for each in TABLE[operation].arguments} if operation else {}


def _of_argument(name: str, argument: Argument | None) -> Member:
    """Return the field for an argument of an operation, or for an integer that is not an argument."""
    if argument is None or (argument.type in ("int", "flag") and not argument.is_array):
        return Member(name, "int")
    if argument.type == "real":
        return Member(name, "real")
    if argument.is_ids and argument.type == "int32":
        return Member(name, "Ids")
    if not (argument.is_array or argument.is_ids):
        raise ValueError(f"{name}: a {argument.type} is not a field; expected the name of one of its values")
    return Member(name, argument.type, True, argument.is_optional, argument.is_written)


declare({name: row.cuda for name, row in TABLE.items() if row.cuda})
