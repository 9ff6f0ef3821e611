"""The arguments of an operation, read from the line of text in its row of the table. The rows are in table.py.

An argument is its name, its :type, its [extents], and what happens to it:

    x[B,C,*]           an array that is read, of the call's floats: float32 (Python backends: or float64 throughout)
    labels:int32[B]    an array of that type. pixels are uint8 or floats, words have 4 bytes, any is every type
    grad{rows,cols,K}  so many values, in any shape
    bias[O]?           None is allowed, and is meant where it is left out at the end
    y[B,C,*]!          written. y[B,C,*]!x may be x itself, written over, where the two have one shape
    w[R,C,K]+          read and written
    outs<O             sorted unique int32 ids below O, or None for all. outs<channels must be a subset of `channels`
    ids:uint32<N       sorted unique ids, never None
    index[B]<N         int32 values below N, in any order
    groups|C,O         an integer that divides C and O
    eps:real           one number. An int, a flag and a pair of integers are written alike

A letter stands for one number throughout the call. * stands for any number of extents (native kernels take at most 8 in
all). An extent may also be a number, the name of ids (how many they select), the name of an integer, a quotient such as
C/groups, or one of DERIVED, which a rule gives.

What letters cannot say is a rule: see rule_text.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

DERIVED = {"P", "Q", "Z", "columns", "bytes", "words", "words_t"}
"""Extents that a rule computes.

They are extents of a window's output, a pooled plane, a compact gradient, the bits of a plane, and the structures of a
mask.
"""

ARRAYS = {"float", "pixels", "word", "any", "uint8", "int32", "uint32", "int64", "float64"}
SCALARS = {"real", "int", "flag", "pair"}
_ARGUMENT = (
    r"(?P<name>\w+)(:(?P<type>\w+))?(\[(?P<shape>[^]]*)]|{(?P<size>[^}]*)})?(?P<optional>\?)?"
    r"((?P<access>[!+])(?P<aliases>[\w,]*))?(<(?P<below>\w+))?(\|(?P<divides>[\w,]+))?"
)


class Argument(NamedTuple):
    """One argument. If it is_flat, its extents multiply to its size, and it may have any shape."""

    name: str
    type: str
    extents: tuple[str, ...] | None
    is_flat: bool
    is_optional: bool
    access: str
    aliases: tuple[str, ...]
    below: str | None
    divides: tuple[str, ...]

    @property
    def is_array(self) -> bool:
        return self.extents is not None

    @property
    def is_ids(self) -> bool:
        """True for sorted unique ids."""
        return self.extents is None and self.below is not None

    @property
    def is_written(self) -> bool:
        return bool(self.access)


class InC:  # of slots: making a tuple's or a dataclass's class takes longer than reading the table
    """The function of the C ABI: its parameters in order, and what csrc/generate.py cannot tell from the arguments.

    order   words [name=]value[:type]: a value is an argument, an extent (B), a product of extents (B*C), or a struct of
            values, efl_room(B*C,H,W,top,left,M,N), where a pair fills two fields
    sizes   groups of parameters that are extents and may multiply to 2^54 at most, as in "rows width; count width". A
            group that begins with `each` is not multiplied. "" stands for one group of all extents, "-" for no group
    checks  calls of functions in csrc/core/check.h that return a status
    empty   an extent: where it is 0 there is nothing to do
    hand    what is written by hand: "checks" in csrc/api, "binding" in csrc/python
    """

    __slots__ = ("checks", "empty", "hand", "order", "sizes")

    def __init__(
        self, order: str, sizes: str = "", checks: tuple[str, ...] = (), empty: str = "", hand: str = ""
    ) -> None:
        self.order, self.sizes, self.checks, self.empty, self.hand = order, sizes, checks, empty, hand


@dataclass(frozen=True, eq=False)
class Signature:
    """One row: a name, the arguments in order as text, what it computes, and the rules that letters cannot say.

    packs     True if native kernels may take packing memory for the operation
    c         the parameters of the C function, or None if the C ABI does not have the operation
    contract  what edgefl.h says of the C function, where that is more than the meaning
    cuda      the fields of the struct of the CUDA kernel, if its launch follows from the row (cuda/row_launches.py)
    """

    name: str
    text: str
    meaning: str
    rules: tuple[str, ...] = ()
    packs: bool = False
    c: InC | None = None
    contract: str = ""
    cuda: str = ""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments, parsed when they are first asked for. A device with native kernels never asks for them."""
        return tuple(_argument(self.name, word) for word in self.text.split())

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(re.split(r"\W", word, maxsplit=1)[0] for word in self.text.split())

    @cached_property
    def required(self) -> int:
        """The number of arguments that have to be given: all but the optional arguments at the end."""
        return max(position for position, word in enumerate(self.text.split(), 1) if "?" not in word)

    @property
    def as_python(self) -> str:
        """The signature as Python shows it: (x, y, bits=None)."""
        given, optional = self.names[: self.required], self.names[self.required :]
        return f"({', '.join([*given, *(f'{name}=None' for name in optional)])})"

    @property
    def documentation(self) -> str:
        return f"{self.meaning}.\n\nArguments, as edgefl/kernels/signature.py writes them:\n{self.text}"


def _argument(operation_name: str, word: str) -> Argument:
    match = re.fullmatch(_ARGUMENT, word)
    part = match.groupdict() if match else {}
    extents = part.get("size") or part.get("shape")
    is_array = extents is not None or part.get("below") is not None
    kind = part.get("type") or ("int" if part.get("divides") else "int32" if part.get("below") else "float")
    if kind not in (ARRAYS if is_array else SCALARS) or (part["access"] and not is_array):
        raise ValueError(f"{operation_name}: argument {word!r}; expected name:type[extents] as signature.py tells")
    return Argument(
        name=part["name"],
        type=kind,
        extents=None if extents is None else _words(extents),
        is_flat=part["size"] is not None,
        is_optional=bool(part["optional"]),
        access=part["access"] or "",
        aliases=_words(part["aliases"]),
        below=part["below"],
        divides=_words(part["divides"]),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def ordered(row: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a call in the row's order. Raises ValueError if one is missing, given twice or unknown."""
    names = row.names
    if len(args) == len(names) and not named:
        return tuple(args)
    if len(args) > len(names):
        raise ValueError(f"{row.name}: {len(args)} arguments; expected {len(names)}")
    unknown = [name for name in named if name not in names[len(args) :]]
    if unknown:
        raise ValueError(f"{row.name}: arguments {unknown}; expected names of its signature that no position gives")
    for name in names[len(args) : row.required]:
        if name not in named:
            raise ValueError(f"{row.name}: {len(args) + len(named)} arguments; expected also {name}")
    return (*args, *(named.get(name) for name in names[len(args) :]))
