"""Every backend refuses wrong arguments with a ValueError that names the argument, and then writes nothing."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.kernels.ops import OPS

from . import cases as c
from . import cases_conv as conv
from . import cases_norm_relu as norm_relu
from . import cases_update as update
from .cases import Args

RNG = np.random.default_rng(11)
LAYER = conv.Geometry(2, 6, 5, (5, 6))
DEPTHWISE = conv.Geometry(2, 6, 12, (5, 6), groups=6)
IMAGE = (2, 6, 4, 5)
WINDOW: Args = {"kernel": (2, 2), "stride": (2, 2), "padding": (1, 1)}

# One ordinary call of each operation, with explicit ids.
CALLS: dict[str, Args] = {
    "gather_rows": {
        "src": c.normal(RNG, 5, 3),
        "index": np.array([4, 0], np.int32),
        "scale": 1.0,
        "shift": 0.0,
        "out": c.blank(2, 3),
    },
    "gather_labels": {
        "src": np.arange(5, dtype=np.int32),
        "index": np.array([4, 0], np.int32),
        "out": np.zeros(2, np.int32),
    },
    "take_channels": {"x": c.normal(RNG, *IMAGE), "channels": c.pick("odd", 6), "out": c.blank(2, 3, 4, 5)},
    "conv2d_forward": conv.forward(RNG, LAYER, True),
    "conv2d_grad_input": conv.grad_input(RNG, LAYER, "odd", "but_one"),
    "conv2d_grad_weight": conv.grad_weight(RNG, LAYER, "odd", "but_one"),
    "linear_forward": c.linear_forward(RNG, 4, 5, 6, True),
    "linear_grad_input": c.linear_grad_input(RNG, 4, 5, 6, "odd", "but_one"),
    "linear_grad_weight": c.linear_grad_weight(RNG, 4, 5, 6, "odd", "but_one"),
    "linear_update": c.linear_update(RNG, 4, 5, 6, "odd", "but_one", False),
    "channel_sum": {"dy": c.normal(RNG, *IMAGE), "out": c.blank(3), "outs": c.pick("odd", 6)},
    "batchnorm_forward": c.batchnorm_forward(RNG, IMAGE, 1.0),
    "batchnorm_eval": c.batchnorm_eval(RNG, IMAGE),
    "batchnorm_backward": c.batchnorm_backward(RNG, IMAGE, "every", "odd"),
    "groupnorm_forward": c.groupnorm_forward(RNG, IMAGE, 3, True),
    "groupnorm_backward": c.groupnorm_backward(RNG, IMAGE, 3, "but_one"),
    "batchnorm_relu_forward": norm_relu.batchnorm_forward(RNG, IMAGE, True),
    "batchnorm_relu_backward": norm_relu.batchnorm_backward(RNG, IMAGE, True, "every", "odd"),
    "groupnorm_relu_forward": norm_relu.groupnorm_forward(RNG, IMAGE, True, 3),
    "groupnorm_relu_backward": norm_relu.groupnorm_backward(RNG, IMAGE, True, 3, "but_one"),
    "relu_forward": c.relu_forward(RNG, IMAGE, True),
    "relu_backward": c.relu_backward(RNG, IMAGE, "odd"),
    "add": {"a": c.normal(RNG, 3, 4), "b": c.normal(RNG, 3, 4), "y": c.blank(3, 4)},
    "maxpool_forward": c.maxpool_forward(RNG, IMAGE, WINDOW, True),
    "maxpool_backward": c.maxpool_backward(RNG, IMAGE, WINDOW, "odd"),
    "avgpool_forward": c.avgpool_forward(RNG, IMAGE, WINDOW, True),
    "avgpool_backward": c.avgpool_backward(RNG, IMAGE, WINDOW, True, "odd"),
    "softmax_xent": update.softmax_xent(RNG, 4, 5, 1.0, True),
    "sum_squares": {"x": c.normal(RNG, 9), "total": np.zeros(1)},
    "clip_scale": {"total": np.ones(1), "max_norm": 1.0, "scale": c.blank(1)},
    "sgd": update.sgd(RNG, (6, 4, 3), update.SGD_VARIANTS["everything"], ("odd", "but_one")),
    "take_axes": update.axes(RNG, (6, 4, 3), ("odd", "but_one"), True),
    "put_axes": update.axes(RNG, (6, 4, 3), ("odd", "but_one"), False),
    "take_flat": update.flat(RNG, 12, "odd", True),
    "put_flat": update.flat(RNG, 12, "odd", False),
    "fill_zero": {"x": c.normal(RNG, 7)},
}
WRITTEN = {
    "gather_rows": "out",
    "gather_labels": "out",
    "take_channels": "out",
    "conv2d_forward": "y",
    "conv2d_grad_input": "dx",
    "conv2d_grad_weight": "dw",
    "linear_forward": "y",
    "linear_grad_input": "dx",
    "linear_grad_weight": "dw",
    "linear_update": "w",
    "channel_sum": "out",
    "batchnorm_forward": "running_mean running_var y xhat inv_std",
    "batchnorm_eval": "y",
    "batchnorm_backward": "dx dweight dbias",
    "groupnorm_forward": "y xhat inv_std",
    "groupnorm_backward": "dx dweight dbias",
    "batchnorm_relu_forward": "running_mean running_var y mean inv_std",
    "batchnorm_relu_backward": "dx dweight dbias",
    "groupnorm_relu_forward": "y mean inv_std",
    "groupnorm_relu_backward": "dx dweight dbias",
    "relu_forward": "y bits",
    "relu_backward": "dx",
    "add": "y",
    "maxpool_forward": "y codes",
    "maxpool_backward": "dx",
    "avgpool_forward": "y",
    "avgpool_backward": "dx",
    "softmax_xent": "dlogits loss correct",
    "sum_squares": "total",
    "clip_scale": "scale",
    "sgd": "w velocity",
    "take_axes": "values",
    "put_axes": "w",
    "take_flat": "values",
    "put_flat": "w",
    "fill_zero": "x",
}
SORTED = ("channels", "outs", "ins", "rows", "cols", "groups_needed", "ids")
CHOSEN = ("index", "labels")  # ids in any order
ANY_DTYPE = {("fill_zero", "x"), ("take_axes", "w"), ("put_axes", "w"), ("take_flat", "w"), ("put_flat", "w")}
ANY_SIZE = {
    *(
        ("gather_rows", "src"),
        ("gather_labels", "src"),
        ("sum_squares", "x"),
        ("channel_sum", "dy"),
        ("fill_zero", "x"),
    ),
    *(("take_axes", "w"), ("put_axes", "w"), ("take_flat", "w"), ("put_flat", "w"), ("sgd", "w")),
}


def arrays(*, names: tuple[str, ...] | None = None) -> list[tuple[str, str]]:
    """(operation, argument) for every array argument of that name."""
    pairs = [(op, name) for op, args in CALLS.items() for name, value in args.items() if isinstance(value, np.ndarray)]
    return [pair for pair in pairs if names is None or pair[1] in names]


def refused(backend: ModuleType, op: str, name: str | None, changes: Args) -> None:
    """Call with these changes: a ValueError that names the argument, and no output touched."""
    args = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in CALLS[op].items()} | changes
    outputs = {key: args[key].copy() for key in WRITTEN[op].split() if isinstance(args[key], np.ndarray)}
    named = name if name is not None else "|".join(OPS[op].arguments)
    with pytest.raises(ValueError, match=rf"\b({named})\b"):
        getattr(backend, op)(*args.values())
    for key, before in outputs.items():
        np.testing.assert_array_equal(args[key], before, err_msg=key)


def test_every_operation_is_here() -> None:
    assert set(CALLS) == set(WRITTEN) == set(OPS)


@pytest.mark.parametrize("op", CALLS)
def test_the_ordinary_call_is_accepted(backend: ModuleType, op: str) -> None:
    args = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in CALLS[op].items()}
    getattr(backend, op)(*args.values())


@pytest.mark.parametrize(("op", "name"), [pair for pair in arrays() if pair not in ANY_DTYPE])
def test_wrong_dtype(backend: ModuleType, op: str, name: str) -> None:
    refused(backend, op, name, {name: np.zeros(CALLS[op][name].shape, np.int16)})


@pytest.mark.parametrize(("op", "name"), arrays())
def test_not_an_array(backend: ModuleType, op: str, name: str) -> None:
    refused(backend, op, name, {name: CALLS[op][name].tolist()})


@pytest.mark.parametrize(("op", "name"), arrays())
def test_not_contiguous(backend: ModuleType, op: str, name: str) -> None:
    value = CALLS[op][name]
    if value.size < 2:
        value = np.resize(value, 2)  # one value is always contiguous
    refused(backend, op, name, {name: np.stack([value, value], axis=-1)[..., 0]})


@pytest.mark.parametrize(("op", "name"), [pair for pair in arrays() if pair not in ANY_SIZE])
def test_wrong_size(backend: ModuleType, op: str, name: str) -> None:
    value = CALLS[op][name]
    refused(backend, op, None, {name: np.concatenate([value, value])})


@pytest.mark.parametrize(("op", "name"), [(op, name) for op, names in WRITTEN.items() for name in names.split()])
def test_read_only_output(backend: ModuleType, op: str, name: str) -> None:
    value = CALLS[op][name].copy()
    value.flags.writeable = False
    refused(backend, op, name, {name: value})


def wrong_ids(ids: Any, kind: str) -> Any:
    wrong = ids.copy()
    if kind == "unsorted":
        wrong[[0, 1]] = wrong[[1, 0]]
    elif kind == "repeated":
        wrong[1] = wrong[0]
    else:
        wrong[-1] = 1000
    return wrong


@pytest.mark.parametrize("kind", ["unsorted", "repeated", "too_large"])
@pytest.mark.parametrize(("op", "name"), arrays(names=SORTED))
def test_wrong_ids(backend: ModuleType, op: str, name: str, kind: str) -> None:
    refused(backend, op, name, {name: wrong_ids(CALLS[op][name], kind)})


@pytest.mark.parametrize("wrong", [-1, 1000])
@pytest.mark.parametrize(("op", "name"), arrays(names=CHOSEN))
def test_index_or_label_out_of_range(backend: ModuleType, op: str, name: str, wrong: int) -> None:
    ids = CALLS[op][name].copy()
    ids[-1] = wrong
    refused(backend, op, name, {name: ids})


def test_negative_id(backend: ModuleType) -> None:
    refused(backend, "linear_grad_input", "outs", {"outs": np.array([-1, 2], np.int32)})


GEOMETRY = [
    ("stride", (0, 1)),
    ("stride", (1, -1)),
    ("padding", (-1, 0)),
    ("dilation", (1, 0)),
    ("dilation", (9, 1)),
    ("groups", 0),
    ("groups", 4),
]


@pytest.mark.parametrize(("name", "value"), GEOMETRY)
@pytest.mark.parametrize("op", ["conv2d_forward", "conv2d_grad_input", "conv2d_grad_weight"])
def test_wrong_convolution_geometry(backend: ModuleType, op: str, name: str, value: Any) -> None:
    refused(backend, op, "kernel" if value == (9, 1) else name, {name: value})


POOLS = ["maxpool_forward", "maxpool_backward", "avgpool_forward", "avgpool_backward"]


@pytest.mark.parametrize(
    ("name", "value"), [("stride", (1, 0)), ("padding", (2, 0)), ("padding", (-1, 0)), ("kernel", (0, 2))]
)
@pytest.mark.parametrize("op", POOLS)
def test_wrong_pool_geometry(backend: ModuleType, op: str, name: str, value: Any) -> None:
    refused(backend, op, name, {name: value})


@pytest.mark.parametrize("op", POOLS[:2])
def test_pool_window_of_more_cells_than_a_code_can_name(backend: ModuleType, op: str) -> None:
    image, maps = ("x", "y") if op.endswith("forward") else ("dx", "dy")
    shapes = {image: c.normal(RNG, 1, 1, 16, 16), maps: c.blank(1, 1, 1, 1), "codes": c.blank_bytes(1, 1, 1, 1)}
    extra = {"channels": None} if op.endswith("backward") else {}
    refused(backend, op, "kernel", {**shapes, **extra, "kernel": (16, 16), "padding": (0, 0)})


def test_batchnorm_of_one_value_per_channel(backend: ModuleType) -> None:
    small = {name: c.normal(RNG, 1, 6, 1, 1) for name in ("x", "y", "xhat")}
    refused(backend, "batchnorm_forward", "x", small)


@pytest.mark.parametrize("op", ["groupnorm_forward", "groupnorm_backward"])
@pytest.mark.parametrize("groups", [0, 4])
def test_groups_that_do_not_divide_the_channels(backend: ModuleType, op: str, groups: int) -> None:
    refused(backend, op, "groups", {"groups": groups, "inv_std": np.ones((2, groups), np.float32)})


@pytest.mark.parametrize("outs", [None, np.array([0, 2, 4], np.int32)])
def test_batchnorm_outs_outside_the_channels(backend: ModuleType, outs: Any) -> None:
    compact = {name: c.blank(6 if outs is None else 3) for name in ("dweight", "dbias")}
    changes = {"channels": np.array([0, 1, 2], np.int32), "outs": outs, **compact}
    refused(backend, "batchnorm_backward", "outs|channels", changes)


def test_groupnorm_outs_outside_the_groups(backend: ModuleType) -> None:
    outs = np.array([1, 3], np.int32)  # channels of groups 0 and 1
    refused(backend, "groupnorm_backward", "outs", {"groups_needed": np.array([0, 2], np.int32), "outs": outs})


@pytest.mark.parametrize("name", ["velocity", "centre"])
def test_sgd_without_an_array_that_its_settings_need(backend: ModuleType, name: str) -> None:
    refused(backend, "sgd", name, {name: None})


def test_selected_inputs_of_a_grouped_convolution(backend: ModuleType) -> None:
    args = {**conv.grad_weight(RNG, DEPTHWISE, "all", "all"), "ins": np.array([0], np.int32)}
    with pytest.raises(ValueError, match=r"\bins\b"):
        backend.conv2d_grad_weight(*args.values())


@pytest.mark.parametrize("planes", [1, 5, 7])
def test_saved_planes_of_a_depthwise_convolution_that_are_not_those_of_outs(backend: ModuleType, planes: int) -> None:
    args = {**conv.grad_weight(RNG, DEPTHWISE, "one", "all"), "x": c.normal(RNG, 2, planes, 5, 6)}
    if planes == 1:
        args["outs"], args["dw"] = np.array([0, 5], np.int32), c.blank(2, 1, 3, 3)  # two groups
    with pytest.raises(ValueError, match=r"\bx\b"):
        backend.conv2d_grad_weight(*args.values())


@pytest.mark.parametrize(
    "missing", [("relu_backward", "bits"), ("maxpool_backward", "codes"), ("linear_forward", "weight")]
)
def test_none_where_an_array_is_needed(backend: ModuleType, missing: tuple[str, str]) -> None:
    refused(backend, *missing, {missing[1]: None})


def test_message_says_what_was_found_and_what_was_expected(backend: ModuleType) -> None:
    args = dict(CALLS["linear_forward"], y=c.blank(4, 7))
    with pytest.raises(ValueError, match=re.compile(r"\by\b.*4, 7.*expected.*4, 6")):
        backend.linear_forward(*args.values())
