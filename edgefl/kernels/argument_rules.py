"""The rules about arguments that a row of the table cannot state in letters: expressions, and a function for each rule
that no expression says, named in the row. Types and shapes of arrays are not checked here.

A rule gets the call's values by name and the extents found so far. What does not depend on a rule has been checked. It
raises ValueError, or sets an extent of DERIVED, with which the remaining shapes are then compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from . import weight_structure as matrix_layout
from .expression_steps import STEPS
from .rule_expressions import expression
from .rule_text import DerivedExtent, Rule, read_rule
from .sparse_layout import ConvolutionShape, SparseConvolutionLayout
from .window import Window

Values = dict[str, Any]
Extents = dict[str, Any]

CODE_CELLS = 255  # a max-pooling code is one byte
GROWTH_RUN = 16  # values between two looks at the room in a list of the largest
LEAST = {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1}


def wrong(name: str, value: object, expected: str) -> ValueError:
    return ValueError(f"{name}={value}; expected {expected}")


def window(values: Values, extents: Extents) -> None:
    """Set P and Q, the output's height and width.

    Require settings in their domains and a window that fits the input.
    """
    kernel = values["kernel"] if "kernel" in values else (extents["Y"], extents["X"])
    settings = (kernel, values["stride"], values["padding"], values.get("dilation", (1, 1)))
    for (name, least), pair in zip(LEAST.items(), settings, strict=True):
        if min(pair) < least:
            raise wrong(name, pair, f"two integers, at least {least}")
    source = (extents["H"], extents["W"])
    found = Window.of(*settings, source)
    if min(*source, *found.result) < 1:
        room = tuple(n + 2 * p for n, p in zip(source, found.padding, strict=True))
        raise wrong("kernel", kernel, f"a window that fits the padded input {room}")
    extents["P"], extents["Q"] = found.result


def pool_window(values: Values, extents: Extents) -> None:
    """Set P and Q, the output's height and width, as `window` does, or rounded up if y has the rounded shape."""
    result = values["y" if "y" in values else "dy"].shape[2:4]
    settings = (values["kernel"], values["stride"], values["padding"], (1, 1))
    is_known = min(*values["kernel"], *values["stride"], extents["H"], extents["W"]) >= 1
    ceiled = is_known and Window.of(*settings, (extents["H"], extents["W"])).ceiled.result
    if is_known and ceiled == result and min(result) >= 1 and min(values["padding"]) >= 0:
        extents["P"], extents["Q"] = result
    else:
        window(values, extents)


def structures(values: Values, extents: Extents) -> None:
    """Set words and words_t, the words of a masked convolution's structures. Require a window as `window` does."""
    if "size" in values:
        extents["H"], extents["W"] = values["size"]
    window(values, extents)
    source, kernel = (extents["H"], extents["W"]), values.get("kernel", (extents.get("Y"), extents.get("X")))
    settings = (tuple(pair) for pair in (kernel, values["stride"], values["padding"], values["dilation"]))
    layer = ConvolutionShape(extents["I"], extents["O"], source, *settings)
    for name, is_transposed in (("words", False), ("words_t", True)):
        layout = SparseConvolutionLayout(layer, extents["N"], is_transposed)
        if not layout.fits:
            raise wrong("dilation", values["dilation"], f"windows of 16-bit offsets over an input of {source}")
        extents[name] = layout.words


def planes(values: Values, extents: Extents) -> None:
    """Set columns, the input channels of a compact gradient.

    Require x with all planes, or with the read planes only.
    """
    groups, total, held = values["groups"], values["in_channels"], extents["S"]
    extents["columns"] = extents["ins"] if groups == 1 else total // groups
    if groups == 1:
        if held > total:
            raise wrong("x", values["x"].shape, f"at most {total} planes")
        return
    if values["ins"] is not None:
        raise wrong("ins", values["ins"], f"None, because groups={groups}")
    outs, is_depthwise = values["outs"], total == groups
    active = len(np.unique(outs // (extents["O"] // groups))) if is_depthwise and outs is not None else total
    if held not in (total, active):
        expected = f"{total} planes, or the {active} of the groups of outs" if is_depthwise else f"{total} planes"
        raise wrong("x", values["x"].shape, expected)


def small_padding(values: Values, extents: Extents) -> None:
    """Require a padding of at most half the kernel of a pool, as PyTorch does."""
    kernel, padding = values["kernel"], values["padding"]
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise wrong("padding", padding, f"at most half the kernel {kernel}")


def code_cells(values: Values, extents: Extents) -> None:
    kernel = values["kernel"]
    if math.prod(kernel) > CODE_CELLS:
        raise wrong("kernel", kernel, f"at most {CODE_CELLS} cells")


def halved(values: Values, extents: Extents) -> None:
    """Set Z to the extents of a plane or of its 2 x 2 pool of stride 2, whichever y (or dy) has."""
    plane = extents["*"]
    pooled = tuple(n // 2 for n in plane)
    found = values["y" if "y" in values else "dy"].shape[2:]
    has_windows = len(plane) == 2 and min(pooled) > 0
    extents["Z"] = pooled if has_windows and found == pooled else plane


def outs_in_groups(values: Values, extents: Extents) -> None:
    groups_needed, outs, groups = values["groups_needed"], values["outs"], values["groups"]
    if groups_needed is None:
        return
    channels = np.arange(extents["C"]) if outs is None else outs
    if np.setdiff1d(channels // (extents["C"] // groups), groups_needed).size:
        raise wrong("outs", "all" if outs is None else outs.tolist(), "channels of groups_needed only")


def kept_weights(values: Values, extents: Extents) -> None:
    """Set words and words_t, the words of the structures of a matrix of which a mask keeps N places."""
    mask, batch, count = values["mask"], values["batch"], extents["N"]
    if batch < 0:
        raise wrong("batch", batch, "a number >= 0")
    if np.count_nonzero(mask) != count:
        raise wrong("order", (count,), f"a slot for each of the {np.count_nonzero(mask)} weights of the mask")
    if (values["structure_t"] is None) != (values["order_t"] is None):
        raise wrong("order_t", values["order_t"], "None if and only if structure_t is")
    outs, ins = mask.shape
    extents["words"] = matrix_layout.plan(outs, ins, count, batch).words
    extents["words_t"] = matrix_layout.plan(ins, outs, count, batch).words


def weight_structure(values: Values, extents: Extents) -> None:
    """Require a structure of N weights between I inputs and O outputs. Only dx takes a transposed structure."""
    matrix_layout.decode(values["structure"], extents["O"], extents["I"], extents["N"], "dx" in values)


def places(values: Values, extents: Extents) -> None:
    order, count = values["order"], extents["N"]
    if count and order.max() >= count:
        raise wrong("order", int(order.max()), f"places below {count}")


def moments(values: Values, extents: Extents) -> None:
    """Require betas of Adam in [0, 1), and an eps above 0, so that nothing is divided by 0."""
    _, *betas, eps, _, _, _ = values["settings"]
    for name, beta in zip(("beta1", "beta2"), betas, strict=True):
        if not 0 <= beta < 1:
            raise wrong("settings", values["settings"], f"0 <= {name} < 1")
    if not eps > 0:
        raise wrong("settings", values["settings"], "eps above 0")
    if values["steps"][0] < 0:
        raise wrong("steps", int(values["steps"][0]), "a number >= 0")


def rows_of_table(values: Values, extents: Extents) -> None:
    """Require ids that are whole numbers of rows."""
    ids = values["ids"]
    wrong_ones = ids[~((ids >= 0) & (ids < extents["V"]) & (np.floor(ids) == ids))]
    if wrong_ones.size:
        raise wrong("ids", wrong_ones[0], f"whole numbers in [0, {extents['V']})")


def stored_bytes(values: Values, extents: Extents) -> None:
    """Require values of one byte with scales, or of two bytes without."""
    has_scale = values["row_scale"] is not None or values["col_scale"] is not None
    if extents["K"] != (1 if has_scale else 2):
        raise wrong("codes", values["codes"].shape, "int8 codes of 1 byte with scales, or bfloat16 of 2 bytes without")


def program_steps(values: Values, extents: Extents) -> None:
    """Require steps of which each names an operation, and reads inputs that are there, constants or earlier steps."""
    program, inputs = values["program"], [values[name] is not None for name in "abcde"]
    operands = tuple(STEPS.values())
    for number, (operation, *read) in enumerate(program.tolist()):
        are_known = [*inputs, *(True,) * number]
        if not 0 <= operation < len(operands):
            raise wrong("program", operation, f"an operation below {len(operands)}")
        if operation == 0 and not 0 <= read[0] < extents["M"]:
            raise wrong("program", read[0], f"a constant below {extents['M']}")
        for each in read[: operands[operation]]:
            if not 0 <= each < len(are_known) or not are_known[each]:
                raise wrong("program", each, f"an input that is given, or an earlier step, before step {number}")


NAMED: dict[str, Callable[[Values, Extents], None]] = {
    rule.__name__: rule
    for rule in (
        window, pool_window, planes, small_padding, code_cells, halved, outs_in_groups, structures, places,
        kept_weights, weight_structure, moments, rows_of_table, stored_bytes,
        program_steps,
    )
}  # fmt: skip
"""The rules that are functions, by the names that rows give them."""


# ---- rules that are expressions -------------------------------------------------------------------------------------


def rule_of(text: str) -> Callable[[Values, Extents], None]:
    """Return the check of a call that a rule of a row means: a function by its name, or an expression."""
    read = read_rule(text)
    if read is None:
        return NAMED[text]
    return _derived(read) if isinstance(read, DerivedExtent) else _refusal(read)


def _refusal(rule: Rule) -> Callable[[Values, Extents], None]:
    test, target = expression(rule.test), expression(rule.target)
    parts = [expression(part) if at % 2 else part for at, part in enumerate(re.split(r"\{([^{}]*)\}", rule.expected))]

    def check(values: Values, extents: Extents) -> None:
        words = _words(values, extents)
        if not test(words):
            value = target(values)
            shown = value.shape if isinstance(value, np.ndarray) and rule.name not in extents else value
            expected = "".join(part if isinstance(part, str) else str(part(words)) for part in parts)
            raise wrong(rule.name, shown, expected)

    return check


def _derived(rule: DerivedExtent) -> Callable[[Values, Extents], None]:
    value = expression(rule.value)

    def derive(values: Values, extents: Extents) -> None:
        extents[rule.name] = value(_words(values, extents))

    return derive


def _words(values: Values, extents: Extents) -> dict[str, Any]:
    """Return the values of an expression's names. Extents, and the numbers of ids, go before values."""
    return {**values, **extents, "inner": math.prod(extents.get("*", ()))}
