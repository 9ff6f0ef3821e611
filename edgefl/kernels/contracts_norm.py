"""What the normalisations ask of their arguments, for the Python backends. Mirrors csrc/edgefl.h; no arithmetic.

As contracts.py: one function per operation, with its name and arguments; it raises ValueError.
"""

from __future__ import annotations

import math

import numpy as np

from .checks import Array, Ids, among, array, floating, ids, output, require


def batchnorm_forward(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, xhat: Array, inv_std: Array
) -> None:
    dtype = floating("x", x, 2)
    channels = x.shape[1]
    count = len(x) * math.prod(x.shape[2:])
    require(count >= 2, "x", x.shape, "at least 2 values per channel")
    for name, value in (("weight", weight), ("bias", bias)):
        array(name, value, dtype, (channels,))
    for name, value in (("running_mean", running_mean), ("running_var", running_var), ("inv_std", inv_std)):
        output(name, value, dtype, (channels,))
    output("y", y, dtype, x.shape)
    output("xhat", xhat, dtype, x.shape)


def batchnorm_eval(x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array) -> None:
    dtype = floating("x", x, 2)
    named = (("weight", weight), ("bias", bias), ("running_mean", running_mean), ("running_var", running_var))
    for name, value in named:
        array(name, value, dtype, (x.shape[1],))
    output("y", y, dtype, x.shape)


def batchnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Ids,
    outs: Ids,
) -> None:
    dtype = floating("dy", dy, 2)
    size = dy.shape[1]
    array("xhat", xhat, dtype, dy.shape)
    array("weight", weight, dtype, (size,))
    array("inv_std", inv_std, dtype, (size,))
    output("dx", dx, dtype, dy.shape)
    ids("channels", channels, size)
    rows = ids("outs", outs, size)
    among("outs", outs, channels, "channels")
    output("dweight", dweight, dtype, (rows,))
    output("dbias", dbias, dtype, (rows,))


def _groups(groups: int, channels: int) -> None:
    require(groups >= 1 and channels % groups == 0, "groups", groups, f"a divisor of {channels} channels")


def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int
) -> None:
    dtype = floating("x", x, 2)
    _groups(groups, x.shape[1])
    array("weight", weight, dtype, (x.shape[1],))
    array("bias", bias, dtype, (x.shape[1],))
    output("y", y, dtype, x.shape)
    if xhat is not None:
        output("xhat", xhat, dtype, x.shape)
    output("inv_std", inv_std, dtype, (len(x), groups))


def groupnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    groups: int,
    groups_needed: Ids,
    outs: Ids,
) -> None:
    dtype = floating("dy", dy, 2)
    channels = dy.shape[1]
    _groups(groups, channels)
    array("xhat", xhat, dtype, dy.shape)
    array("weight", weight, dtype, (channels,))
    array("inv_std", inv_std, dtype, (len(dy), groups))
    output("dx", dx, dtype, dy.shape)
    ids("groups_needed", groups_needed, groups)
    rows = ids("outs", outs, channels)
    in_groups = None if outs is None else np.unique(outs // (channels // groups))
    among("outs", in_groups, groups_needed, "the channels of groups_needed")
    output("dweight", dweight, dtype, (rows,))
    output("dbias", dbias, dtype, (rows,))


# ---- with ReLU and pooling ------------------------------------------------------------------------------------------


def halved_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape after a 2 x 2 pool of stride 2; None if there is no window."""
    if len(shape) != 4 or min(shape[2:]) < 2:
        return None
    return (*shape[:2], shape[2] // 2, shape[3] // 2)


def _relu_shape(name: str, value: Array, x: Array) -> tuple[int, ...]:
    """The shape that `value` has to have: that of x or the pooled one."""
    found, wanted = getattr(value, "shape", None), (x.shape, halved_shape(x.shape))
    require(found is not None and found in wanted, name, found or type(value).__name__, f"{wanted[0]} or {wanted[1]}")
    return value.shape


def batchnorm_relu_forward(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, mean: Array, inv_std: Array
) -> None:
    dtype = floating("x", x, 2)
    count = len(x) * math.prod(x.shape[2:])
    require(count >= 2, "x", x.shape, "at least 2 values per channel")
    for name, value in (("weight", weight), ("bias", bias)):
        array(name, value, dtype, (x.shape[1],))
    written = {"running_mean": running_mean, "running_var": running_var, "mean": mean, "inv_std": inv_std}
    for name, value in written.items():
        output(name, value, dtype, (x.shape[1],))
    output("y", y, dtype, _relu_shape("y", y, x))


def batchnorm_relu_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Ids,
    outs: Ids,
) -> None:
    dtype = floating("x", x, 2)
    for name, value in (("weight", weight), ("bias", bias), ("mean", mean), ("inv_std", inv_std)):
        array(name, value, dtype, (x.shape[1],))
    ids("channels", channels, x.shape[1])
    among("outs", outs, channels, "channels")
    _relu_outputs(dy, x, dx, dweight, dbias, outs)


def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int
) -> None:
    dtype = floating("x", x, 2)
    _groups(groups, x.shape[1])
    for name, value in (("weight", weight), ("bias", bias)):
        array(name, value, dtype, (x.shape[1],))
    for name, value in (("mean", mean), ("inv_std", inv_std)):
        output(name, value, dtype, (len(x), groups))
    output("y", y, dtype, _relu_shape("y", y, x))


def groupnorm_relu_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    groups: int,
    groups_needed: Ids,
    outs: Ids,
) -> None:
    dtype = floating("x", x, 2)
    channels = x.shape[1]
    _groups(groups, channels)
    for name, value in (("weight", weight), ("bias", bias)):
        array(name, value, dtype, (channels,))
    for name, value in (("mean", mean), ("inv_std", inv_std)):
        array(name, value, dtype, (len(x), groups))
    ids("groups_needed", groups_needed, groups)
    ids("outs", outs, channels)
    in_groups = None if outs is None else np.unique(outs // (channels // groups))
    among("outs", in_groups, groups_needed, "the channels of groups_needed")
    _relu_outputs(dy, x, dx, dweight, dbias, outs)


def _relu_outputs(dy: Array, x: Array, dx: Array, dweight: Array, dbias: Array, outs: Ids) -> None:
    array("dy", dy, x.dtype, _relu_shape("dy", dy, x))
    output("dx", dx, x.dtype, x.shape)
    rows = ids("outs", outs, x.shape[1])
    output("dweight", dweight, x.dtype, (rows,))
    output("dbias", dbias, x.dtype, (rows,))
