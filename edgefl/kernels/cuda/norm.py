"""Batch, group and layer normalisation: csrc/cuda/norm.cuh. norm_relu.py takes its launches from here, too."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .divisor import divisor
from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, Scratch, launch
from .norm_runs import Runs

FLOAT = 4  # bytes
ByImage = tuple[bool, int, int, int]  # whether statistics are of images, their groups, channels of each, and lanes
WHOLE: ByImage = (False, 1, 1, 1)


@dataclass(frozen=True)
class Forward:
    """The forward pass: the normalised values and the kept statistics.

    The statistics are the batch's if `inv_std` is given, and else the running statistics. `most` is the largest value
    of the rectifier, or None without a rectifier. If y is smaller than x, it has the largest value of each window.
    """

    x: KernelArray
    weight: KernelArray
    bias: KernelArray
    y: KernelArray
    inv_std: KernelArray | None
    eps: float
    xhat: KernelArray | None = None
    mean: KernelArray | None = None
    running_mean: KernelArray | None = None
    running_var: KernelArray | None = None
    momentum: float = 0.0
    most: float | None = None

    def launches(self, runs: Runs) -> Launches:
        values = runs.rows * self.y.inner if self.inv_std is None else runs.values
        runs = runs.spread(values) if self.inv_std is None else runs.shared()
        if self.inv_std is None or not runs.is_split:
            return [self._launch(runs, None, None, None)]
        origins = Scratch(runs.sums.size, runs.count * FLOAT)
        return [self._launch(runs, runs.sums, None, origins), self._launch(runs, None, runs.sums, origins)]

    def _launch(
        self, runs: Runs, leaves: Scratch | None, left: Scratch | None, origins: Scratch | None
    ) -> PlannedLaunch:
        written = (self.y, self.xhat, self.mean, self.inv_std, self.running_mean, self.running_var)
        arrays = (self.x, self.weight, self.bias, *written)
        sums = (leaves, left, origins, runs.per_value, runs.unbiased)
        numbers = (float(self.eps), float(self.momentum), *rectifier(self.most), *windows_of(self.x, self.y)[:3])
        kernel = "norm_pooled_forward" if self.y.inner < self.x.inner else "norm_forward"
        return runs.launch(kernel, *arrays, *runs.fields, runs.is_group, *sums, *numbers)


@dataclass(frozen=True)
class Backward:
    """The backward pass: the gradient of the output, what was normalised, and the gradients that are computed.

    `x` is what was normalised or, without `mean`, the normalised values.
    """

    dy: KernelArray
    x: KernelArray
    weight: KernelArray
    bias: KernelArray | None
    mean: KernelArray | None
    inv_std: KernelArray
    dx: KernelArray | None
    dweight: KernelArray | None
    dbias: KernelArray | None
    outs: Ids
    most: float | None = None

    def launches(self, runs: Runs) -> Launches:
        """Return the launches for dx, and for the gradients of `outs` if each channel was normalised by itself."""
        runs = self._shared(runs)
        if not runs.is_split:
            return [self._launch(runs, None, None)]
        return [self._launch(runs, runs.sums, None), self._launch(runs, None, runs.sums)]

    def gradients(self, groups: int, lanes: int = 1) -> Launches:
        """Return the launches for the gradients of `outs`, where images were normalised by `groups` groups.

        They run before dx overwrites what they read.
        """
        runs, alone = self._shared(channels_of(self.x, self.outs)), replace(self, dx=None)
        image = (True, groups, runs.all // groups, lanes)
        if not runs.is_split:
            return [alone._launch(runs, None, None, image)]
        added = launch("norm_gradients", runs.count, *alone._fields(runs, None, runs.sums, image))
        return [alone._launch(runs, runs.sums, None, image), added]

    @property
    def _is_pooled(self) -> bool:
        return self.dy.inner < self.x.inner

    def _shared(self, runs: Runs) -> Runs:
        return runs.shared(runs.rows * (self.dy.inner if self._is_pooled else runs.inner))

    def _launch(
        self, runs: Runs, leaves: Scratch | None, left: Scratch | None, image: ByImage = WHOLE
    ) -> PlannedLaunch:
        kernel = "norm_pooled_backward" if self._is_pooled else "norm_backward"
        return runs.launch(kernel, *self._fields(runs, leaves, left, image))

    def _fields(self, runs: Runs, leaves: Scratch | None, left: Scratch | None, image: ByImage) -> tuple[Field, ...]:
        read = (self.dy, self.x, self.weight, self.bias, self.mean, self.inv_std)
        arrays = (*read, self.dx, self.dweight, self.dbias, self.outs)
        numbers = (leaves, left, runs.per_value, *rectifier(self.most), *windows_of(self.x, self.dy))
        return (*arrays, *runs.fields, runs.is_group, *image, *numbers)


def rectifier(most: float | None) -> tuple[float, bool]:
    """Return the two fields of a rectifier: its largest value, and whether there is a rectifier."""
    return (math.inf if most is None else most), most is not None


def windows_of(x: KernelArray, y: KernelArray) -> tuple[int, ...]:
    """Return a plane's width, and the divisors by the windows that fit in a row and by the windows that begin in it."""
    width = x.shape[-1] if y.inner < x.inner else 0
    return (width, *divisor(width // 2), *divisor((width + 1) // 2))


def channels_of(x: KernelArray, chosen: Ids) -> Runs:
    """Return the runs of a normalisation of channels over all images."""
    batch, count = x.shape[:2]
    return Runs(chosen, images=1, all=count, size=1, rows=batch, step=count, inner=x.inner)


def groups_of(x: KernelArray, count: int, chosen: KernelArray | None, lanes: int = 1) -> Runs:
    """Return the runs of groups of channels of each image, or of each of `lanes` images side by side."""
    batch, size = x.shape[0], x.shape[1] // count
    inner = x.inner // max(lanes, 1)
    return Runs(Ids.of(chosen, count), batch, count, size, rows=size, step=1, inner=inner, lanes=lanes, is_group=True)


def positions_of(x: KernelArray) -> Runs:
    return groups_of(x, 1, None, lanes=x.inner)


# ---- the operations --------------------------------------------------------------------------------------------------


def batchnorm_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    running_mean: KernelArray,
    running_var: KernelArray,
    y: KernelArray,
    xhat: KernelArray,
    inv_std: KernelArray,
    eps: float,
    momentum: float,
) -> Launches:
    all_channels = channels_of(x, Ids(None, x.shape[1]))
    statistics = (inv_std, eps, xhat, None, running_mean, running_var, momentum)
    return Forward(x, weight, bias, y, *statistics).launches(all_channels)


def batchnorm_eval(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    running_mean: KernelArray,
    running_var: KernelArray,
    y: KernelArray,
    eps: float,
) -> Launches:
    all_channels = channels_of(x, Ids(None, x.shape[1]))
    statistics = (None, eps, None, None, running_mean, running_var)
    return Forward(x, weight, bias, y, *statistics).launches(all_channels)


def batchnorm_backward(
    dy: KernelArray,
    xhat: KernelArray,
    weight: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    dbias: KernelArray,
    channels: KernelArray | None,
    outs: KernelArray | None,
) -> Launches:
    count = dy.shape[1]
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, count))
    return back.launches(channels_of(dy, Ids.of(channels, count)))


def groupnorm_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    y: KernelArray,
    xhat: KernelArray | None,
    inv_std: KernelArray,
    groups: int,
    eps: float,
) -> Launches:
    return Forward(x, weight, bias, y, inv_std, eps, xhat).launches(groups_of(x, groups, None))


def groupnorm_backward(
    dy: KernelArray,
    xhat: KernelArray,
    weight: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    dbias: KernelArray,
    groups: int,
    groups_needed: KernelArray | None,
    outs: KernelArray | None,
) -> Launches:
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, dy.shape[1]))
    return [*back.gradients(groups), *back.launches(groups_of(dy, groups, groups_needed))]


def groupnorm_lanes_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    y: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    groups: int,
    relu: bool,
    eps: float,
) -> Launches:
    most = math.inf if relu else None
    forward = Forward(x, weight, bias, y, inv_std, eps, mean=mean, most=most)
    return forward.launches(groups_of(x, groups, None, x.shape[3]))


def groupnorm_lanes_backward(
    dy: KernelArray,
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    mean: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray | None,
    dbias: KernelArray | None,
    groups: int,
    relu: bool,
) -> Launches:
    lanes, outs = x.shape[3], Ids(None, x.shape[1])
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, outs, math.inf if relu else None)
    gradients = [] if dweight is None else back.gradients(groups, lanes)
    return [*gradients, *back.launches(groups_of(x, groups, None, lanes))]


def layernorm_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray,
    y: KernelArray,
    xhat: KernelArray | None,
    inv_std: KernelArray,
    eps: float,
) -> Launches:
    return Forward(x, weight, bias, y, inv_std, eps, xhat).launches(positions_of(x))


def layernorm_backward(
    dy: KernelArray,
    xhat: KernelArray,
    weight: KernelArray,
    inv_std: KernelArray,
    dx: KernelArray,
    dweight: KernelArray,
    dbias: KernelArray,
    outs: KernelArray | None,
) -> Launches:
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, dy.shape[1]))
    return [*back.gradients(1), *back.launches(positions_of(dy))]
