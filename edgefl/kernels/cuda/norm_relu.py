"""Normalisation, rectifier and pool in one: csrc/cuda/norm_relu.cuh, and without a pool csrc/cuda/norm.cuh."""

from __future__ import annotations

import math

from .launch import Ids, KernelArray, Launches
from .norm import Backward, Forward, channels_of, groups_of


def batchnorm_relu_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    running_mean: KernelArray,
    running_var: KernelArray,
    y: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    eps: float,
    momentum: float,
    relu6: bool,
) -> Launches:
    statistics = (inv_std, eps, None, mean, running_mean, running_var, momentum)
    forward = Forward(x, weight, bias, y, *statistics, _most(relu6))
    return forward.launches(channels_of(x, Ids(None, x.shape[1])))


def batchnorm_relu_eval(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    running_mean: KernelArray,
    running_var: KernelArray,
    y: KernelArray,
    eps: float,
    relu6: bool,
) -> Launches:
    statistics = (None, eps, None, None, running_mean, running_var, 0.0)
    forward = Forward(x, weight, bias, y, *statistics, _most(relu6))
    return forward.launches(channels_of(x, Ids(None, x.shape[1])))


def batchnorm_relu_backward(
    dy: KernelArray,
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    dbias: KernelArray,
    channels: KernelArray | None,
    outs: KernelArray | None,
    relu6: bool,
) -> Launches:
    count = x.shape[1]
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, Ids.of(outs, count), _most(relu6))
    return back.launches(channels_of(x, Ids.of(channels, count)))


def groupnorm_relu_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    y: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    groups: int,
    eps: float,
) -> Launches:
    forward = Forward(x, weight, bias, y, inv_std, eps, mean=mean, most=math.inf)
    return forward.launches(groups_of(x, groups, None))


def groupnorm_relu_backward(
    dy: KernelArray,
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    dbias: KernelArray,
    groups: int,
    groups_needed: KernelArray | None,
    outs: KernelArray | None,
) -> Launches:
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, Ids.of(outs, x.shape[1]), math.inf)
    return [*back.gradients(groups), *back.launches(groups_of(x, groups, groups_needed))]


def _most(relu6: bool) -> float:
    return 6.0 if relu6 else math.inf
