"""The rules that are functions, where arguments are read from Python: calls of what csrc/python/windows.h declares."""

from __future__ import annotations

from collections.abc import Callable

from .reading import Reading
from .rows import Parameter

INCLUDE = '#include "python/windows.h"\n'


def window(reading: Reading, parameters: list[Parameter]) -> list[str]:
    """Return the lines that compute P and Q of a convolution."""
    (conv,) = (parameter for parameter in parameters if parameter.struct == "efl_conv2d")
    return [
        f"const ConvolutionWindow window(given, efl_conv2d{{{', '.join(value for _, value in conv.fields)}}});",
        "const efl_int64 P = window.height;",
        "const efl_int64 Q = window.width;",
    ]


def pool_window(reading: Reading, parameters: list[Parameter]) -> list[str]:
    """Return the lines for P and Q of a pool, and for whether its last windows may be cut. They check the padding."""
    x, y = reading.tellers["H"].name, reading.first_with("P").name
    return [
        f"const PoolWindow window(given, {x}, {y}, kernel, stride, padding);",
        "const efl_int32 ceil = window.is_ceiled;",
        f"const efl_int64 P = {y}.shape[2];",
        f"const efl_int64 Q = {y}.shape[3];",
    ]


def code_cells(reading: Reading, parameters: list[Parameter]) -> list[str]:
    return ["expect_code_cells(given, kernel);"]


def halved(reading: Reading, parameters: list[Parameter]) -> list[str]:
    """Return the lines that compute the planes as C takes them, and that check the arrays whose tail is Z."""
    return [
        f"const HalvedPlanes planes(given, {reading.tellers['*'].name}, {reading.first_with('Z').name});",
        "const efl_int64 H = planes.height;",
        "const efl_int64 W = planes.width;",
        "const efl_int32 halved = planes.halved;",
    ]


def in_c(reading: Reading, parameters: list[Parameter]) -> list[str]:
    """Return no line, because the C function or another rule makes the check."""
    return []


NAMED: dict[str, Callable[[Reading, list[Parameter]], list[str]]] = {
    "window": window,
    "pool_window": pool_window,
    "code_cells": code_cells,
    "halved": halved,
    "small_padding": in_c,
    "outs_in_groups": in_c,
    "rows_of_table": in_c,
    "stored_bytes": in_c,
    "weight_structure": in_c,
    "moments": in_c,
    "program_steps": in_c,
}
