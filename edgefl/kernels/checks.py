"""Check the calls of a Python backend against a row of the table: types, shapes, ids, then the row's rules.

A wrong argument raises ValueError before anything is written. The error has the argument's name, its value and what was
expected. Contents are read only where a wrong value would lead to a read out of bounds. The native backend has its own
checks in csrc/python/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .argument_rules import Extents, rule_of, wrong
from .arrays import Array
from .signature import DERIVED, Argument, Signature

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
WORD_BYTES = (4, 8)  # bytes of a word: 8 in the float64 reference
PIXELS = np.dtype(np.uint8)
INTEGERS = (int, np.integer, np.bool_)
NUMBERS = (int, float, np.number)

Dtypes = dict[str, "np.dtype[Any]"]  # the type of the call's floats, and the type of its words


class ArgumentCheck:
    """A check that refuses arguments that a row does not allow. It is made once per operation, so that calls look up
    nothing.
    """

    def __init__(self, row: Signature) -> None:
        places = list(enumerate(row.arguments))
        self._names = row.names
        self._scalars = [(at, argument) for at, argument in places if not argument.is_array and not argument.is_ids]
        self._arrays = [(at, _Array(argument)) for at, argument in places if argument.is_array]
        self._divisors = [(at, argument.name, argument.divides) for at, argument in places if argument.divides]
        self._ids = [(at, _Ids(row, argument)) for at, argument in places if argument.below]
        self._rules = [rule_of(text) for text in row.rules]
        self._plain = [(at, array) for at, array in self._arrays if not array.is_derived]
        self._derived = [(at, array) for at, array in self._arrays if array.is_derived]
        extents = {extent for argument in row.arguments for extent in argument.extents or ()}
        self._numbers = {extent: int(extent) for extent in extents if extent.isdecimal()}
        self._quotients = [(extent, *extent.split("/")) for extent in extents if "/" in extent]

    def __call__(self, args: tuple[Any, ...]) -> None:
        """Raise ValueError unless the arguments, in the row's order, fit the row."""
        extents: Extents = self._numbers.copy()
        self._read(args, extents)
        for at, name, multiples in self._divisors:
            for multiple in multiples:
                if args[at] < 1 or extents[multiple] % args[at]:
                    raise wrong(name, args[at], f"a divisor of {extents[multiple]}")
        for extent, first, second in self._quotients:
            extents[extent] = extents[first] // extents[second]
        for at, ids in self._ids:
            ids.admit(args, args[at], extents)
        _fit(self._plain, args, extents)
        if self._rules:
            values = dict(zip(self._names, args, strict=True))
            for rule in self._rules:
                rule(values, extents)
            _fit(self._derived, args, extents)

    def _read(self, args: tuple[Any, ...], extents: Extents) -> None:
        """Check each argument by itself, and learn the extents that it tells."""
        dtypes: Dtypes = {}
        for at, argument in self._scalars:
            _scalar(argument, args[at], extents)
        for at, array in self._arrays:
            value = args[at]
            if value is not None or not array.argument.is_optional:
                array.admit(value, dtypes, extents)


def require_array(name: str, value: Array, dtype: np.dtype[Any] | type, dimensions: int) -> None:
    """Raise ValueError unless `value` is a C-contiguous array of this type and number of dimensions."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        found = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{name} has type {found}; expected an array of {np.dtype(dtype)}")
    if value.ndim != dimensions:
        raise ValueError(f"{name} has shape {value.shape}; expected {dimensions} dimensions")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name} has strides {value.strides}; expected a C-contiguous array")


def _fit(arrays: Sequence[tuple[int, _Array]], args: tuple[Any, ...], extents: Extents) -> None:
    for at, array in arrays:
        if args[at] is not None:
            array.fit(args[at], extents)


# ---- arrays ---------------------------------------------------------------------------------------------------------


class _Array:
    """An array argument: its extents, the extents that it tells, and a tail (* or Z), any number of further extents."""

    def __init__(self, argument: Argument) -> None:
        extents = argument.extents or ()
        self.argument = argument
        self._kind = argument.type
        self._is_written = argument.is_written
        self._is_flat = argument.is_flat
        self.is_derived = not DERIVED.isdisjoint(extents)  # a rule says the extents
        self._tail = extents[-1] if extents[-1] in ("*", "Z") else None
        self._extents = extents[:-1] if self._tail else extents
        self._letters = [(axis, name) for axis, name in enumerate(self._extents) if _is_letter(name)]

    def admit(self, value: Any, dtypes: Dtypes, extents: Extents) -> None:
        """Require the type, layout and number of dimensions, and learn the extents that no earlier array has told."""
        name = self.argument.name
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} has type {type(value).__name__}; expected an array")
        if value.dtype is not dtypes.get(self._kind):
            self._admit_type(value.dtype, dtypes)
        flags = value.flags
        if not flags.c_contiguous:
            raise ValueError(f"{name} has strides {value.strides}; expected a C-contiguous array")
        if self._is_written and not flags.writeable:
            raise ValueError(f"{name} is read-only; expected a writeable array")
        if self._is_flat:
            if len(self._letters) == len(self._extents) == 1:
                extents.setdefault(self._extents[0], value.size)
        else:
            self._learn(value.shape, extents)

    def _learn(self, shape: tuple[int, ...], extents: Extents) -> None:
        fixed = len(self._extents)
        if len(shape) != fixed and (len(shape) < fixed or not self._tail):
            more = " or more" if self._tail else ""
            raise ValueError(f"{self.argument.name} has shape {shape}; expected {fixed}{more} dimensions")
        for axis, letter in self._letters:
            extents.setdefault(letter, shape[axis])
        if self._tail == "*":
            extents.setdefault("*", shape[fixed:])

    def _admit_type(self, found: np.dtype[Any], dtypes: Dtypes) -> None:
        """Require the type. All floats of a call have one type, and all its words have one type: the first array says
        which.
        """
        kind = self._kind
        if kind == "pixels":
            if found == PIXELS:
                return
            kind = "float"
        if kind in dtypes:
            fits, expected = found == dtypes[kind], str(dtypes[kind])
        elif kind == "float":
            fits, expected = found in FLOATS, "float32 or float64"
        elif kind == "word":
            fits, expected = found.itemsize in WORD_BYTES, "4-byte values"
        else:
            fits, expected = kind == "any" or found == kind, kind
        if not fits:
            raise ValueError(f"{self.argument.name} has type {found}; expected an array of {expected}")
        dtypes.setdefault(kind, found)

    def fit(self, value: Array, extents: Extents) -> None:
        """Require the shape, or the number of values, now that all extents are known."""
        wanted = tuple([extents[name] for name in self._extents])
        if self._tail:
            wanted += extents[self._tail]
        if self._is_flat:
            if value.size != math.prod(wanted):
                raise ValueError(f"{self.argument.name} has shape {value.shape}; expected {math.prod(wanted)} values")
        elif value.shape != wanted:
            expected = ", ".join(map(str, wanted))
            raise ValueError(f"{self.argument.name} has shape {value.shape}; expected ({expected})")


def _is_letter(extent: str) -> bool:
    return len(extent) == 1 and extent.isupper() and extent not in DERIVED


# ---- single values --------------------------------------------------------------------------------------------------


def _scalar(argument: Argument, value: Any, extents: Extents) -> None:
    name, kind = argument.name, argument.type
    if kind == "pair":
        if not (
            isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, INTEGERS) for part in value)
        ):
            raise wrong(name, value, "two integers")
    elif kind == "real":
        if not isinstance(value, NUMBERS):
            raise wrong(name, repr(value), "a number")
    elif isinstance(value, INTEGERS):
        extents[name] = value
    else:
        raise wrong(name, repr(value), "an integer")


# ---- ids ------------------------------------------------------------------------------------------------------------


class _Ids:
    """An argument with indices below an extent: an array in any order, or sorted ids, which may have to be a subset of
    others.
    """

    def __init__(self, row: Signature, argument: Argument) -> None:
        below = argument.below or ""
        outer = row.names.index(below) if below in row.names and row.arguments[row.names.index(below)].is_ids else None
        self._name, self._type, self._is_sorted = argument.name, argument.type, argument.is_ids
        self._outer = outer
        self._extent, self._of = below if outer is None else row.arguments[outer].below or "", below

    def admit(self, args: tuple[Any, ...], value: Any, extents: Extents) -> None:
        """Require that the indices are in range and, if the row says so, sorted and unique.

        The number of selected ids is learned as an extent.
        """
        size = extents[self._extent]
        if not self._is_sorted:
            _unsorted(self._name, value, size)
            return
        if value is None and self._type == "int32":
            extents[self._name] = size
        else:
            require_array(self._name, value, np.dtype(self._type), 1)
            _sorted(self._name, value, size)
            extents[self._name] = value.size
        if self._outer is not None and args[self._outer] is not None:
            missing = np.setdiff1d(np.arange(size) if value is None else value, args[self._outer])
            if missing.size:
                raise wrong(self._name, missing.tolist(), f"a subset of {self._of}")


def _sorted(name: str, value: Array, size: int) -> None:
    if value.size and (value[0] < 0 or value[-1] >= size):
        wrong = value[0] if value[0] < 0 else value[-1]
        raise ValueError(f"{name} contains {wrong}; expected ids in [0, {size})")
    falls = np.flatnonzero(value[1:] <= value[:-1])
    if falls.size:
        first, second = value[falls[0]], value[falls[0] + 1]
        raise ValueError(f"{name} has {second} after {first}; expected sorted unique ids")


def _unsorted(name: str, value: Array, size: int) -> None:
    wrong = value[(value < 0) | (value >= size)]
    if wrong.size:
        raise ValueError(f"{name} contains {wrong[0]}; expected values in [0, {size})")
