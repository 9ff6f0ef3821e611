"""The rules about arguments that a row of the table cannot state in letters: one function for each rule that rows name.

A rule gets the call's values by name and the extents found so far. What does not depend on a rule has been checked. It
raises ValueError, or sets an extent of DERIVED, with which the remaining shapes are then compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import weight_structure as matrix_layout
from .sparse_layout import ConvolutionShape, SparseConvolutionLayout
from .table import ACTIVATIONS
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


def some_cells(values: Values, extents: Extents) -> None:
    for name, height, width in (("x" if "x" in values else "dx", "H", "W"), ("y" if "y" in values else "dy", "M", "N")):
        if min(extents[height], extents[width]) < 1:
            raise wrong(name, values[name].shape, "planes of 1 or more cells")


def words_of_a_stream(values: Values, extents: Extents) -> None:
    for name, bits in (("node", 31), ("threshold", 32)):
        if not 0 <= values[name] < 1 << bits:
            raise wrong(name, values[name], f"0 to {(1 << bits) - 1}")


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


def bits(values: Values, extents: Extents) -> None:
    """Set bytes, the number of bytes for one bit per element of a plane. Each plane starts on a byte."""
    extents["bytes"] = (math.prod(extents["*"]) + 7) // 8


def halved(values: Values, extents: Extents) -> None:
    """Set Z to the extents of a plane or of its 2 x 2 pool of stride 2, whichever y (or dy) has."""
    plane = extents["*"]
    pooled = tuple(n // 2 for n in plane)
    found = values["y" if "y" in values else "dy"].shape[2:]
    has_windows = len(plane) == 2 and min(pooled) > 0
    extents["Z"] = pooled if has_windows and found == pooled else plane


def two_values(values: Values, extents: Extents) -> None:
    """Require two values per channel, because the unbiased variance of one value is not a number."""
    if extents["B"] * math.prod(extents["*"]) < 2:
        raise wrong("x", values["x"].shape, "at least 2 values per channel")


def outs_in_groups(values: Values, extents: Extents) -> None:
    groups_needed, outs, groups = values["groups_needed"], values["outs"], values["groups"]
    if groups_needed is None:
        return
    channels = np.arange(extents["C"]) if outs is None else outs
    if np.setdiff1d(channels // (extents["C"] // groups), groups_needed).size:
        raise wrong("outs", "all" if outs is None else outs.tolist(), "channels of groups_needed only")


def both_gradients(values: Values, extents: Extents) -> None:
    if (values["dweight"] is None) != (values["dbias"] is None):
        raise wrong("dbias", values["dbias"], "None if and only if dweight is")


def columns(values: Values, extents: Extents) -> None:
    width = extents["ins"]
    if extents["cols"] != width:
        raise wrong("cols", values["cols"], f"{width} columns, as many as ins")


def plain(values: Values, extents: Extents) -> None:
    _, momentum, _, pull = values["hyper"]
    if momentum != 0 or pull != 0:
        raise wrong("hyper", values["hyper"], "momentum and pull 0")


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


def needed(values: Values, extents: Extents) -> None:
    """Require the arrays that SGD reads. It reads an array only where its coefficient is not 0."""
    _, momentum, _, pull = values["hyper"]
    for name, coefficient, array in (("momentum", momentum, "velocity"), ("pull", pull, "centre")):
        if values[array] is None and coefficient != 0:
            raise wrong(array, None, f"an array, because {name}={coefficient}")


def needed_centre(values: Values, extents: Extents) -> None:
    if values["centre"] is None and values["rates"][-1] != 0:
        raise wrong("centre", None, f"an array, because pull={values['rates'][-1]}")


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


def smoothing(values: Values, extents: Extents) -> None:
    if not 0 <= values["smoothing"] <= 1:
        raise wrong("smoothing", values["smoothing"], "0 to 1")


def above_zero(values: Values, extents: Extents) -> None:
    if not values["delta"] > 0:
        raise wrong("delta", values["delta"], "a number above 0")


def not_negative(values: Values, extents: Extents) -> None:
    max_norm = values["max_norm"]
    if not max_norm >= 0:
        raise wrong("max_norm", max_norm, "a norm that is not negative")


def some_of_the_bits(values: Values, extents: Extents) -> None:
    if not 0 <= values["ones"] <= extents["N"]:
        raise wrong("ones", values["ones"], f"0 to {extents['N']}")


def room(values: Values, extents: Extents) -> None:
    """Require room for the longest code: two words of 16 bits for a byte of bits, and 16 bytes for the states."""
    least = 16 + (extents["N"] + 7) // 8 * 4
    if extents["S"] < least:
        raise wrong("code", values["code"].shape, f"at least {least} bytes")


def blocks(values: Values, extents: Extents) -> None:
    expected = (extents["N"] + 255) // 256
    if extents["M"] != expected:
        raise wrong("largest", values["largest"].shape, f"({expected},), one for every 256 values")


def within(values: Values, extents: Extents) -> None:
    """Require coordinates of the part that have bits in `exists` and that fit an int32."""
    first, size, bits = values["first"], values["grad"].size, 8 * extents["E"]
    if first < 0 or first + size > min(bits, 2**31):
        raise wrong("first", first, f"0 to {min(bits, 2**31) - size}, for {size} values and {bits} bits")


def roomy(values: Values, extents: Extents) -> None:
    """Require a list with room for its kept values and a run of values, which holds no more than there is room for."""
    count, filled, capacity = values["count"], int(values["filled"][0]), extents["M"]
    if not 0 <= count <= capacity - GROWTH_RUN:
        raise wrong("count", count, f"0 to {capacity - GROWTH_RUN}, {GROWTH_RUN} below the length of magnitudes")
    if values["first"] > 0 and not 0 <= filled <= capacity:
        raise wrong("filled", filled, f"0 to {capacity}")


def enough(values: Values, extents: Extents) -> None:
    filled = int(values["filled"][0])
    if not extents["K"] <= filled <= extents["M"]:
        raise wrong("filled", filled, f"{extents['K']} to {extents['M']}, at least as many as found")


def activation(values: Values, extents: Extents) -> None:
    kind, beta = values["kind"], values["beta"]
    if not 0 <= kind < len(ACTIVATIONS):
        raise wrong("kind", kind, f"0 to {len(ACTIVATIONS) - 1}")
    if not beta > 0:
        raise wrong("beta", beta, "a number above 0")


def one_or_each(values: Values, extents: Extents) -> None:
    """Require one weight, or one for each channel: M is 1 or C."""
    if extents["M"] not in (1, extents["C"]):
        raise wrong("weight", values["weight"].shape, f"1 value, or {extents['C']}")


def inside(values: Values, extents: Extents) -> None:
    first, room = values["first"], extents["D"] - extents["C"]
    if not 0 <= first <= room:
        raise wrong("first", first, f"0 to {room}")


def room_around(values: Values, extents: Extents) -> None:
    for name, large, small in (("top", "M", "H"), ("left", "N", "W")):
        room = extents[large] - extents[small]
        if not 0 <= values[name] <= room:
            raise wrong(name, values[name], f"0 to {room}")


def scaled(values: Values, extents: Extents) -> None:
    found = (extents["M"], extents["N"])
    if min(values["scale"]) < 1 or found != (extents["H"] * values["scale"][0], extents["W"] * values["scale"][1]):
        raise wrong("scale", values["scale"], f"how often {(extents['H'], extents['W'])} goes into {found}")


def rows_of_table(values: Values, extents: Extents) -> None:
    """Require ids that are whole numbers of rows."""
    ids = values["ids"]
    wrong_ones = ids[~((ids >= 0) & (ids < extents["V"]) & (np.floor(ids) == ids))]
    if wrong_ones.size:
        raise wrong("ids", wrong_ones[0], f"whole numbers in [0, {extents['V']})")


def padding_row(values: Values, extents: Extents) -> None:
    if not -1 <= values["padding"] < extents["V"]:
        raise wrong("padding", values["padding"], f"-1 to {extents['V'] - 1}")


def last_steps(values: Values, extents: Extents) -> None:
    if extents["S"] < extents["T"]:
        raise wrong("y", values["y"].shape, f"at least the {extents['T']} steps of x")


def recurrence(values: Values, extents: Extents) -> None:
    """Require three gates for each unit of a GRU, four of an LSTM (with cells), and one state more than steps."""
    gates, units = 4 if "cells" in values else 3, extents["H"]
    if extents["G"] != gates * units:
        raise wrong("weight", values["weight"].shape, f"{gates} rows for each of {units} units")
    if extents["S"] != extents["T"] + 1:
        raise wrong("states" if "states" in values else "cells", extents["S"], f"{extents['T'] + 1} steps")


def three_parts(values: Values, extents: Extents) -> None:
    if extents["C"] != 3 * extents["E"]:
        raise wrong("qkv", values["qkv"].shape, f"queries, keys and values of {extents['E']} channels")


RULES: dict[str, Callable[[Values, Extents], None]] = {
    rule.__name__: rule
    for rule in (
        window, pool_window, some_cells, words_of_a_stream,
        planes, small_padding, code_cells, bits, halved, two_values, outs_in_groups, columns, plain, needed,
        not_negative, within, roomy, enough, some_of_the_bits, room, blocks, structures, places, kept_weights,
        weight_structure, both_gradients, activation, one_or_each, inside, room_around, scaled,
        rows_of_table, padding_row, last_steps, recurrence, three_parts, needed_centre, moments, smoothing, above_zero,
    )
}  # fmt: skip
