"""Batch, group and layer normalisation: csrc/cuda/norm.cuh. norm_relu.py takes its launches from here, too."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .divisor import divisor
from .launch import Fields, Ids, KernelArray, Launches, PlannedLaunch, Scratch, StructValues, launch
from .norm_runs import Runs
from .structs import declare

declare(
    {
        # With by_row a run has a channel for each of its rows. Where blocks share a run, a first launch leaves sums of
        # d and of d^2 in `leaves` [pieces][runs], with d = x - origin. A second launch takes these sums as `left`. A
        # run of n values has per_value = 1 / n and unbiased = n / (n - 1). The rectifier's largest value is `most`. The
        # width of a plane is for windows.
        "norms::ForwardArgs: norm_forward norm_pooled_forward": (
            "x,weight,bias:float[] y:float[]! xhat,mean,inv_std,running_mean,running_var:float[]?! runs:runs::Runs "
            "by_row leaves:runs::Pair[]?! left:runs::Pair[]? origins:float[]?! "
            "per_value,unbiased,eps,momentum,most:real rectifies width by_windows:Divisor"
        ),
        # A launch without dx makes sums alone. The ids `outs` are of dweight and dbias. With by_image a run is a
        # channel whose images were normalised by their `groups` groups of `share` channels. The statistics then have
        # stat_lanes lanes.
        "norms::BackArgs: norm_backward norm_gradients norm_pooled_backward": (
            "dy,x,weight:float[] bias,mean:float[]? inv_std:float[] dx,dweight,dbias:float[]?! outs:Ids "
            "runs:runs::Runs by_row by_image groups share stat_lanes leaves:runs::Pair[]?! left:runs::Pair[]? "
            "per_value,most:real rectifies width by_windows,by_begun:Divisor"
        ),
    }
)

FLOAT = 4  # bytes
WHOLE = {"by_image": False, "groups": 1, "share": 1, "stat_lanes": 1}


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
        read: Fields = {"x": self.x, "weight": self.weight, "bias": self.bias}
        written = {"y": self.y, "xhat": self.xhat, "mean": self.mean, "inv_std": self.inv_std}
        running = {"running_mean": self.running_mean, "running_var": self.running_var}
        sums = {"leaves": leaves, "left": left, "origins": origins}
        numbers = {"per_value": runs.per_value, "unbiased": runs.unbiased, "eps": self.eps, "momentum": self.momentum}
        width, by_windows, _ = windows_of(self.x, self.y)
        windows: Fields = {**rectifier(self.most), "width": width, "by_windows": by_windows}
        kernel = "norm_pooled_forward" if self.y.inner < self.x.inner else "norm_forward"
        common: Fields = {"runs": runs.struct, "by_row": runs.is_group}
        return runs.launch(kernel, **read, **written, **running, **common, **sums, **numbers, **windows)


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
        image = {"by_image": True, "groups": groups, "share": runs.all // groups, "stat_lanes": lanes}
        if not runs.is_split:
            return [alone._launch(runs, None, None, image)]
        added = launch("norm_gradients", runs.count, **alone._fields(runs, None, runs.sums, image))
        return [alone._launch(runs, runs.sums, None, image), added]

    @property
    def _is_pooled(self) -> bool:
        return self.dy.inner < self.x.inner

    def _shared(self, runs: Runs) -> Runs:
        return runs.shared(runs.rows * (self.dy.inner if self._is_pooled else runs.inner))

    def _launch(
        self, runs: Runs, leaves: Scratch | None, left: Scratch | None, image: dict[str, int] = WHOLE
    ) -> PlannedLaunch:
        kernel = "norm_pooled_backward" if self._is_pooled else "norm_backward"
        return runs.launch(kernel, **self._fields(runs, leaves, left, image))

    def _fields(self, runs: Runs, leaves: Scratch | None, left: Scratch | None, image: dict[str, int]) -> Fields:
        read: Fields = {"dy": self.dy, "x": self.x, "weight": self.weight, "bias": self.bias, "mean": self.mean}
        written = {"dx": self.dx, "dweight": self.dweight, "dbias": self.dbias}
        width, by_windows, by_begun = windows_of(self.x, self.dy)
        windows: Fields = {**rectifier(self.most), "width": width, "by_windows": by_windows, "by_begun": by_begun}
        sums = {"leaves": leaves, "left": left, "per_value": runs.per_value}
        common: Fields = {"inv_std": self.inv_std, "outs": self.outs, "runs": runs.struct, "by_row": runs.is_group}
        return {**read, **written, **common, **image, **sums, **windows}


def rectifier(most: float | None) -> dict[str, float]:
    """Return the two fields of a rectifier: its largest value, and whether there is a rectifier."""
    return {"most": math.inf if most is None else most, "rectifies": most is not None}


def windows_of(x: KernelArray, y: KernelArray) -> tuple[int, StructValues, StructValues]:
    """Return a plane's width, and the divisors by the windows that fit in a row and by the windows that begin in it."""
    width = x.shape[-1] if y.inner < x.inner else 0
    return width, divisor(width // 2), divisor((width + 1) // 2)


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
