"""Normalisation, rectifier and pool in one: csrc/cuda/norm_relu.cuh, and without a pool csrc/cuda/norm.cuh."""

from __future__ import annotations

import math

from .launch import At, Ids, Launches
from .norm import Backward, Forward, channels_of, groups_of


def batchnorm_relu_forward(
    x: At,
    weight: At,
    bias: At,
    running_mean: At,
    running_var: At,
    y: At,
    mean: At,
    inv_std: At,
    eps: float,
    momentum: float,
    relu6: bool,
) -> Launches:
    statistics = (inv_std, eps, None, mean, running_mean, running_var, momentum)
    forward = Forward(x, weight, bias, y, *statistics, _most(relu6))
    return forward.launches(channels_of(x, Ids(None, x.shape[1])))


def batchnorm_relu_eval(
    x: At, weight: At, bias: At, running_mean: At, running_var: At, y: At, eps: float, relu6: bool
) -> Launches:
    statistics = (None, eps, None, None, running_mean, running_var, 0.0)
    forward = Forward(x, weight, bias, y, *statistics, _most(relu6))
    return forward.launches(channels_of(x, Ids(None, x.shape[1])))


def batchnorm_relu_backward(
    dy: At,
    x: At,
    weight: At,
    bias: At,
    mean: At,
    inv_std: At,
    dx: At,
    dweight: At,
    dbias: At,
    channels: At | None,
    outs: At | None,
    relu6: bool,
) -> Launches:
    count = x.shape[1]
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, Ids.of(outs, count), _most(relu6))
    return back.launches(channels_of(x, Ids.of(channels, count)))


def groupnorm_relu_forward(
    x: At, weight: At, bias: At, y: At, mean: At, inv_std: At, groups: int, eps: float
) -> Launches:
    forward = Forward(x, weight, bias, y, inv_std, eps, mean=mean, most=math.inf)
    return forward.launches(groups_of(x, groups, None))


def groupnorm_relu_backward(
    dy: At,
    x: At,
    weight: At,
    bias: At,
    mean: At,
    inv_std: At,
    dx: At,
    dweight: At,
    dbias: At,
    groups: int,
    groups_needed: At | None,
    outs: At | None,
) -> Launches:
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, Ids.of(outs, x.shape[1]), math.inf)
    return [*back.gradients(groups), *back.launches(groups_of(x, groups, groups_needed))]


def _most(relu6: bool) -> float:
    return 6.0 if relu6 else math.inf
