"""The label of a method with options of its own, one row of a comparison: `fedspu:keep=1`,
NAME:OPTION=VALUE:OPTION=VALUE.

This module handles text alone. The package (__init__.py) knows which methods and options there are, and what types
values have. Options of a row go before options that all methods of a run share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """A row: the method's name, and its own options as they were written, sorted by name."""

    method: str
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(label: str) -> Variant:
        """Read a label. Raises ValueError for an option without a value, or an option that is there twice."""
        parts = label.split(":")
        count = next((i for i, part in enumerate(parts) if i and "=" in part), len(parts))
        pairs = [part.partition("=") for part in parts[count:]]
        for (name, equals, value), part in zip(pairs, parts[count:], strict=True):
            if not (name and equals and value):
                raise ValueError(f"method={label} has {part!r}; expected NAME:OPTION=VALUE")
        options = {name: value for name, _, value in pairs}
        if len(options) < len(pairs):
            raise ValueError(f"method={label} has an option twice; expected each option once")
        return Variant(":".join(parts[:count]), tuple(sorted(options.items())))


def label_of(method: str, options: Mapping[str, Any]) -> str:
    """Return the label of a method with these values, such as `fedspu:keep=0.2,1:lr=0.1`. Equal values give equal
    labels.
    """
    return ":".join([method, *(f"{name}={written(options[name])}" for name in sorted(options))])


def labels_in(texts: Iterable[str]) -> list[str]:
    """Return the labels in lists separated by commas.

    A comma may also be in a value, such as `keep=.2,1`, or before the next option of the same method.
    """
    found: list[str] = []
    for text in texts:
        begins = True
        for piece in filter(None, text.split(",")):
            is_option, is_number = "=" in piece.partition(":")[0], piece[0].isdigit() or piece[0] in ".-"
            if begins or not (is_option or is_number):
                found.append(piece)
            else:
                found[-1] += f":{piece}" if is_option else f",{piece}"
            begins = False
    return found


def folder(label: str) -> str:
    """Return the name of a row's directory: its label without colons, which some tools take for the end of a host's
    name.
    """
    return label.replace(":", "+")


def written(value: Any) -> str:
    """Return a hyper-parameter's value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(written, value))
    return str(value).removesuffix(".0")
