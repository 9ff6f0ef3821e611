"""What a row of the table cannot say in letters: one function per rule, named in the row. No types or shapes of arrays.

A rule gets the call's values by name and the extents found so far; what does not depend on a rule has been checked. It
raises ValueError, or gives an extent of DERIVED, with which the remaining shapes are then compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .window import Window

Values = dict[str, Any]
Extents = dict[str, Any]

CODE_CELLS = 255  # a max-pooling code is one byte


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise ValueError unless `holds`."""
    if not holds:
        raise ValueError(f"{name}={value}; expected {expected}")


def window(values: Values, extents: Extents) -> None:
    """P, Q: the output's height and width. The settings are in their domains and the window fits the padded input."""
    kernel = values["kernel"] if "kernel" in values else (extents["Y"], extents["X"])
    settings = (kernel, values["stride"], values["padding"], values.get("dilation", (1, 1)))
    for name, pair, least in zip(("kernel", "stride", "padding", "dilation"), settings, (1, 1, 0, 1), strict=True):
        require(min(pair) >= least, name, pair, f"two integers, at least {least}")
    source = (extents["H"], extents["W"])
    found = Window.of(*settings, source)
    room = tuple(n + 2 * p for n, p in zip(source, found.padding, strict=True))
    require(min(*source, *found.result) > 0, "kernel", kernel, f"a window that fits the padded input {room}")
    extents["P"], extents["Q"] = found.result


def planes(values: Values, extents: Extents) -> None:
    """columns: input channels of a compact gradient; and x holds all planes, or only those that are read."""
    groups, total, held = values["groups"], values["in_channels"], extents["S"]
    extents["columns"] = extents["ins"] if groups == 1 else total // groups
    if groups == 1:
        require(held <= total, "x", values["x"].shape, f"at most {total} planes")
        return
    require(values["ins"] is None, "ins", values["ins"], f"None, because groups={groups}")
    outs, is_depthwise = values["outs"], total == groups
    active = len(np.unique(outs // (extents["O"] // groups))) if is_depthwise and outs is not None else total
    expected = f"{total} planes, or the {active} of the groups of outs"
    require(held in (total, active), "x", values["x"].shape, expected if is_depthwise else f"{total} planes")


def small_padding(values: Values, extents: Extents) -> None:
    """A pool's padding is at most half its kernel (PyTorch)."""
    kernel, padding = values["kernel"], values["padding"]
    is_small = all(2 * p <= k for p, k in zip(padding, kernel, strict=True))
    require(is_small, "padding", padding, f"at most half the kernel {kernel}")


def code_cells(values: Values, extents: Extents) -> None:
    kernel = values["kernel"]
    require(math.prod(kernel) <= CODE_CELLS, "kernel", kernel, f"at most {CODE_CELLS} cells")


def bits(values: Values, extents: Extents) -> None:
    """bytes: those of one bit per element of a plane; each plane starts on a byte."""
    extents["bytes"] = (math.prod(extents["*"]) + 7) // 8


def halved(values: Values, extents: Extents) -> None:
    """Z: the extents of a plane, or what a 2 x 2 pool of stride 2 leaves of them, whichever y (or dy) has."""
    plane = extents["*"]
    pooled = tuple(n // 2 for n in plane)
    name = "y" if "y" in values else "dy"
    has_windows = len(plane) == 2 and min(pooled) > 0
    extents["Z"] = pooled if has_windows and values[name].shape[2:] == pooled else plane


def two_values(values: Values, extents: Extents) -> None:
    """The unbiased variance of one value is not a number."""
    shape = values["x"].shape
    require(extents["B"] * math.prod(extents["*"]) >= 2, "x", shape, "at least 2 values per channel")


def outs_in_groups(values: Values, extents: Extents) -> None:
    needed, outs, groups = values["groups_needed"], values["outs"], values["groups"]
    if needed is None:
        return
    channels = np.arange(extents["C"]) if outs is None else outs
    missing = np.setdiff1d(channels // (extents["C"] // groups), needed)
    require(not missing.size, "outs", "all" if outs is None else outs.tolist(), "the channels of groups_needed only")


def columns(values: Values, extents: Extents) -> None:
    width = extents["ins"]
    require(extents["cols"] == width, "cols", values["cols"], f"{width} columns, as many as ins")


def plain(values: Values, extents: Extents) -> None:
    _, momentum, _, pull = values["hyper"]
    require(momentum == 0 and pull == 0, "hyper", values["hyper"], "momentum and pull 0")


def needed(values: Values, extents: Extents) -> None:
    """SGD reads an array only where its coefficient is not 0, and then it has to be there."""
    _, momentum, _, pull = values["hyper"]
    for name, coefficient, array in (("momentum", momentum, "velocity"), ("pull", pull, "centre")):
        is_given = values[array] is not None or coefficient == 0
        require(is_given, array, values[array], f"an array, because {name}={coefficient}")


def not_negative(values: Values, extents: Extents) -> None:
    require(values["max_norm"] >= 0, "max_norm", values["max_norm"], "a norm that is not negative")


RULES: dict[str, Callable[[Values, Extents], None]] = {
    rule.__name__: rule
    for rule in (
        window, planes, small_padding, code_cells, bits, halved, two_values, outs_in_groups, columns, plain, needed,
        not_negative,
    )
}  # fmt: skip
