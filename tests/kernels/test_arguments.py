"""Every backend refuses wrong arguments with a ValueError that names the argument, and then writes nothing.

Wrong types, layouts, sizes and ids follow from the table. The refusals of its rules are listed case by case below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.kernels.signature import Argument, Signature
from edgefl.kernels.table import TABLE

from . import cases_convolution as convolution
from .calls import copied, each, run
from .cases import Args, blank, blank_bytes, normal, ordinary

RNG = np.random.default_rng(11)
DEPTHWISE = convolution.Geometry(2, 6, 12, (5, 6), groups=6)
Wrong = tuple[str, str, Args]  # what is wrong, the arguments that the message may name, what to call with


def refused(backend: ModuleType, op: str, named: str, changes: Args, args: Args | None = None) -> None:
    """Call with these changes: a ValueError that names one of `named`, and no output touched."""
    args = copied(ordinary(op).args() if args is None else args) | changes
    written = [argument.name for argument in TABLE[op].arguments if argument.is_written]
    before = copied({name: args[name] for name in written})
    with pytest.raises(ValueError, match=rf"\b({named})\b"):
        getattr(backend, op)(*args.values())
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(args[name], value, err_msg=name)


# ---- what follows from the table ------------------------------------------------------------------------------------


def wrong_calls(row: Signature) -> Iterator[Wrong]:
    """The ordinary call with one argument made wrong, in every way that the row tells."""
    args = ordinary(row.name).args()
    for argument in row.arguments:
        name, value = argument.name, args[argument.name]
        if isinstance(value, np.ndarray):
            for what, wrong in wrong_arrays(row, argument, value):
                yield f"{name} {what}", "|".join(row.names) if what == "twice as long" else name, {name: wrong}
        if not argument.is_optional and not (argument.is_ids and argument.type == "int32"):
            yield f"{name} None", name, {name: None}


def wrong_arrays(row: Signature, argument: Argument, value: np.ndarray) -> Iterator[tuple[str, Any]]:
    if argument.type != "any":
        yield "of int16", np.zeros(value.shape, np.int16)
    yield "as a list", value.tolist()
    two = np.resize(value, 2) if value.size < 2 else value  # one value is always contiguous
    yield "not contiguous", np.stack([two, two], axis=-1)[..., 0]
    if argument.is_ids or not is_free(row, argument):
        yield "twice as long", np.concatenate([value, value])
    if argument.is_written:
        locked = value.copy()
        locked.flags.writeable = False
        yield "read-only", locked
    if argument.below:
        yield from wrong_ids(argument, value)


def is_free(row: Signature, argument: Argument) -> bool:
    """True if the row gives the first extent of an array nothing to agree with."""
    first = (argument.extents or ("",))[0]
    others = [other.extents or () for other in row.arguments if other is not argument]
    return not first.isdecimal() and not any(first in extents for extents in others)


def wrong_ids(argument: Argument, value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if argument.is_ids:
        yield "unsorted", np.concatenate([value[[1, 0]], value[2:]])
        yield "repeated", np.concatenate([value[[0, 0]], value[2:]])
    elif value.size:
        yield "negative", np.concatenate([value[:-1], np.array([-1], value.dtype)])
    yield "too large", np.concatenate([value[:-1], np.array([1000], value.dtype)])


@pytest.mark.parametrize("op", TABLE)
def test_wrong_arguments_are_refused(backend: ModuleType, op: str) -> None:
    def check(named: str, changes: Args) -> Callable[[], None]:
        return lambda: refused(backend, op, named, changes)

    each((f"{op}: {what}", check(named, changes)) for what, named, changes in wrong_calls(TABLE[op]))


def test_ordinary_calls_are_accepted(backend: ModuleType) -> None:
    each((op, lambda op=op: run(backend, op, ordinary(op).args())) for op in TABLE)


def test_missing_and_unknown_arguments_are_refused(backend: ModuleType) -> None:
    each((op, lambda op=op: misses_and_unknowns(op, getattr(backend, op))) for op in TABLE)


def misses_and_unknowns(op: str, function: Callable[..., None]) -> None:
    row = TABLE[op]
    args = list(ordinary(op).args().values())
    with pytest.raises(ValueError, match=rf"^{op}: 0 arguments; expected also {row.names[0]}"):
        function()
    with pytest.raises(ValueError, match=rf"^{op}: {len(args) + 1} arguments; expected {len(args)}"):
        function(*args, None)
    for name in ("no_such_argument", row.names[0]):
        with pytest.raises(ValueError, match=rf"^{op}: arguments .*{name}"):
            function(*args, **{name: args[0]})
    short = row.required - 1
    with pytest.raises(ValueError, match=rf"^{op}: {short} arguments; expected also {row.names[short]}"):
        function(*args[:short])


def test_negative_id(backend: ModuleType) -> None:
    refused(backend, "linear_grad_input", "outs", {"outs": np.array([-1, 2], np.int32)})


# ---- rules ----------------------------------------------------------------------------------------------------------

CONVOLUTIONS = ["conv2d_forward", "conv2d_grad_input", "conv2d_grad_weight"]
POOLS = ["maxpool_forward", "maxpool_backward", "avgpool_forward", "avgpool_backward"]
CONVOLUTION_SETTINGS = [
    ("stride", {"stride": (0, 1)}),
    ("stride", {"stride": (1, -1)}),
    ("padding", {"padding": (-1, 0)}),
    ("dilation", {"dilation": (1, 0)}),
    ("kernel", {"dilation": (9, 1)}),
    ("groups", {"groups": 0}),
    ("groups", {"groups": 4}),
    ("stride", {"stride": 1}),
    ("padding", {"padding": (1, 1, 1)}),
]
POOL_SETTINGS = [
    ("stride", {"stride": (1, 0)}),
    ("padding", {"padding": (2, 0)}),
    ("padding", {"padding": (-1, 0)}),
    ("kernel", {"kernel": (0, 2)}),
]
SETTINGS = [(op, CONVOLUTION_SETTINGS) for op in CONVOLUTIONS] + [(op, POOL_SETTINGS) for op in POOLS]


@pytest.mark.parametrize(("op", "settings"), SETTINGS, ids=CONVOLUTIONS + POOLS)
def test_wrong_geometry(backend: ModuleType, op: str, settings: list[tuple[str, Args]]) -> None:
    def check(named: str, changes: Args) -> Callable[[], None]:
        return lambda: refused(backend, op, named, changes)

    each((f"{op}: {changes}", check(named, changes)) for named, changes in settings)


@pytest.mark.parametrize("op", POOLS[:2])
def test_pool_window_of_more_cells_than_a_code_can_name(backend: ModuleType, op: str) -> None:
    image, maps = ("x", "y") if op.endswith("forward") else ("dx", "dy")
    shapes = {image: normal(RNG, 1, 1, 16, 16), maps: blank(1, 1, 1, 1), "codes": blank_bytes(1, 1, 1, 1)}
    extra = {"channels": None} if op.endswith("backward") else {}
    refused(backend, op, "kernel", {**shapes, **extra, "kernel": (16, 16), "padding": (0, 0)})


def test_batchnorm_of_one_value_per_channel(backend: ModuleType) -> None:
    small = {name: normal(RNG, 1, 6, 1, 1) for name in ("x", "y", "xhat")}
    refused(backend, "batchnorm_forward", "x", small)
    refused(backend, "batchnorm_relu_forward", "x", {name: small[name] for name in ("x", "y")})


NORMS = ["groupnorm_forward", "groupnorm_backward", "groupnorm_relu_forward", "groupnorm_relu_backward"]


@pytest.mark.parametrize("op", NORMS)
@pytest.mark.parametrize("groups", [0, 4])
def test_groups_that_do_not_divide_the_channels(backend: ModuleType, op: str, groups: int) -> None:
    refused(backend, op, "groups", {"groups": groups, "inv_std": np.ones((2, groups), np.float32)})


@pytest.mark.parametrize("op", ["batchnorm_backward", "batchnorm_relu_backward"])
@pytest.mark.parametrize("outs", [None, np.array([0, 2, 4], np.int32)])
def test_batchnorm_outs_outside_the_channels(backend: ModuleType, op: str, outs: Any) -> None:
    compact = {name: blank(6 if outs is None else 3) for name in ("dweight", "dbias")}
    changes = {"channels": np.array([0, 1, 2], np.int32), "outs": outs, **compact}
    refused(backend, op, "outs|channels", changes)


@pytest.mark.parametrize("op", ["groupnorm_backward", "groupnorm_relu_backward"])
def test_groupnorm_outs_outside_the_groups(backend: ModuleType, op: str) -> None:
    outs = np.array([1, 3], np.int32)  # channels of groups 0 and 1
    refused(backend, op, "outs", {"groups_needed": np.array([0, 2], np.int32), "outs": outs})


@pytest.mark.parametrize("op", ["batchnorm_relu_forward", "batchnorm_relu_eval", "batchnorm_relu_backward"])
def test_a_plane_that_is_neither_whole_nor_halved(backend: ModuleType, op: str) -> None:
    name = "dy" if op.endswith("backward") else "y"
    refused(backend, op, name, {name: blank(2, 6, 1, 2)})


@pytest.mark.parametrize("name", ["velocity", "centre"])
def test_sgd_without_an_array_that_its_settings_need(backend: ModuleType, name: str) -> None:
    refused(backend, "sgd", name, {name: None})


@pytest.mark.parametrize("place", [1, 3])
def test_linear_update_with_momentum_or_pull(backend: ModuleType, place: int) -> None:
    hyper = np.array([0.1, 0, 0, 0], np.float32)
    hyper[place] = 0.5
    refused(backend, "linear_update", "hyper", {"hyper": hyper})


def test_linear_update_of_other_columns_than_were_read(backend: ModuleType) -> None:
    refused(backend, "linear_update", "cols", {"cols": np.array([0], np.int32)})


def test_negative_limit_of_a_norm(backend: ModuleType) -> None:
    refused(backend, "clip_scale", "max_norm", {"max_norm": -1.0})
    refused(backend, "clip_scale", "max_norm", {"max_norm": "much"})


def test_growth_beyond_its_list_or_its_bits(backend: ModuleType) -> None:
    for first in (-1, 11):  # 30 values, 40 bits
        refused(backend, "keep_largest", "first", {"first": first})
    for count in (-1, 4):  # of 19
        refused(backend, "keep_largest", "count", {"count": count})
    for filled in (-1, 20):
        refused(backend, "keep_largest", "filled", {"filled": np.array([filled], np.int32)})
    for filled in (6, 36):
        refused(backend, "largest_places", "filled", {"filled": np.array([filled], np.int32)})


def test_selected_inputs_of_a_grouped_convolution(backend: ModuleType) -> None:
    args = convolution.grad_weight(RNG, DEPTHWISE, "all", "all")
    refused(backend, "conv2d_grad_weight", "ins", {"ins": np.array([0], np.int32)}, args)


@pytest.mark.parametrize("planes", [1, 5, 7])
def test_saved_planes_of_a_depthwise_convolution_that_are_not_those_of_outs(backend: ModuleType, planes: int) -> None:
    changes: Args = {"x": normal(RNG, 2, planes, 5, 6)}
    if planes == 1:
        changes |= {"outs": np.array([0, 5], np.int32), "dw": blank(2, 1, 3, 3)}  # two groups
    args = convolution.grad_weight(RNG, DEPTHWISE, "one", "all")
    refused(backend, "conv2d_grad_weight", "x", changes, args)


def test_message_says_what_was_found_and_what_was_expected(backend: ModuleType) -> None:
    args = dict(ordinary("linear_forward").args(), y=blank(4, 7))
    with pytest.raises(ValueError, match=re.compile(r"\by\b.*4, 7.*expected.*4, 6")):
        backend.linear_forward(*args.values())
