"""Batch, group and layer normalisation: csrc/cuda/norm.cuh. The launches that they need, for norm_relu.py too."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .divisor import divisor
from .launch import At, Field, Ids, Launches, Planned, Scratch, launch
from .runs import Runs

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Forward:
    """What is normalised, and what is kept: statistics of the batch where `inv_std` is, else the running ones are used.

    most: of the rectifier, if there is one; is_pooled: y has the largest of windows in planes of this width
    """

    x: At
    weight: At
    bias: At
    y: At
    inv_std: At | None
    eps: float
    xhat: At | None = None
    mean: At | None = None
    running_mean: At | None = None
    running_var: At | None = None
    momentum: float = 0.0
    most: float | None = None

    def launches(self, norm: str, runs: Runs) -> Launches:
        """norm: batchnorm or groupnorm."""
        is_pooled = self.y.inner < self.x.inner
        kernel = f"{norm}_pooled_forward" if is_pooled else f"{norm}_forward"
        if self.inv_std is None:
            runs = runs.spread(runs.rows * self.y.inner)
            return [runs.launch(kernel, *self._fields(runs, None, None))]
        runs = runs.shared()
        if not runs.is_split:
            return [runs.launch(kernel, *self._fields(runs, None, None))]
        sums = runs.sums
        origins = Scratch(sums.size, runs.count * FLOAT)
        moments = runs.launch("norm_moments", self.x, *runs.fields, sums, origins)
        return [moments, runs.launch(kernel, *self._fields(runs, sums, origins))]

    def _fields(self, runs: Runs, sums: Scratch | None, origins: Scratch | None) -> tuple[Field, ...]:
        written = (self.y, self.xhat, self.mean, self.inv_std, self.running_mean, self.running_var)
        numbers = (runs.per_value, runs.unbiased, float(self.eps), float(self.momentum), *rectifier(self.most))
        numbers = (*numbers, *windows_of(self.x, self.y)[:3])
        return (self.x, self.weight, self.bias, *written, *runs.fields, sums, origins, *numbers)


@dataclass(frozen=True)
class Backward:
    """The signal, what was normalised (or, without `mean`, what came of that) and the gradients."""

    dy: At
    x: At
    weight: At
    bias: At | None
    mean: At | None
    inv_std: At
    dx: At
    dweight: At | None
    dbias: At | None
    outs: Ids
    most: float | None = None

    def launches(self, norm: str, runs: Runs) -> Launches:
        """dx; and the gradients of outs, if they are channels that were normalised as such: norm is batchnorm."""
        runs = self._shared(runs)
        back = self._launch(norm, "backward", runs)
        return [self._launch(norm, "sums", runs), back] if runs.is_split else [back]

    def gradients(self, groups: int, lanes: int = 1) -> Launches:
        """Those of outs, whose images were normalised by so many groups, before dx takes the place of what is read."""
        runs = self._shared(channels_of(self.x, self.outs))
        sums = self._launch("groupnorm", "channel_sums", runs, runs.all // groups, lanes)
        return [sums, launch("norm_gradients", runs.count, *self._fields(runs, 1, 1))] if runs.is_split else [sums]

    @property
    def _is_pooled(self) -> bool:
        return self.dy.inner < self.x.inner

    def _shared(self, runs: Runs) -> Runs:
        return runs.shared(runs.rows * (self.dy.inner if self._is_pooled else runs.inner))

    def _launch(self, norm: str, what: str, runs: Runs, share: int = 1, lanes: int = 1) -> Planned:
        form = f"{norm}_pooled" if self._is_pooled else norm
        return runs.launch(f"{form}_{what}", *self._fields(runs, share, lanes))

    def _fields(self, runs: Runs, share: int, lanes: int) -> tuple[Field, ...]:
        read = (self.dy, self.x, self.weight, self.bias, self.mean, self.inv_std)
        sums = runs.sums if runs.is_split else None
        numbers = (share, lanes, runs.per_value, *rectifier(self.most), *windows_of(self.x, self.dy))
        return (*read, self.dx, self.dweight, self.dbias, self.outs, *runs.fields, sums, *numbers)


def rectifier(most: float | None) -> tuple[float, bool]:
    """The fields of one, or of none."""
    return (math.inf if most is None else most), most is not None


def windows_of(x: At, y: At) -> tuple[int, ...]:
    """A plane's width, and what divides by the windows that fit in a row and by those that begin in it."""
    width = x.shape[-1] if y.inner < x.inner else 0
    return (width, *divisor(width // 2), *divisor((width + 1) // 2))


def channels_of(x: At, chosen: Ids) -> Runs:
    """Of all images."""
    batch, count = x.shape[:2]
    return Runs(chosen, images=1, all=count, size=1, rows=batch, step=count, inner=x.inner)


def groups_of(x: At, count: int, chosen: At | None, lanes: int = 1) -> Runs:
    """Of channels of each image, or of each of those side by side."""
    batch, size = x.shape[0], x.shape[1] // count
    return Runs(Ids.of(chosen, count), batch, count, size, rows=size, step=1, inner=x.inner // lanes, lanes=lanes)


def places_of(x: At) -> Runs:
    return groups_of(x, 1, None, lanes=x.inner)


# ---- the operations --------------------------------------------------------------------------------------------------


def batchnorm_forward(
    x: At,
    weight: At,
    bias: At,
    running_mean: At,
    running_var: At,
    y: At,
    xhat: At,
    inv_std: At,
    eps: float,
    momentum: float,
) -> Launches:
    all_channels = channels_of(x, Ids(None, x.shape[1]))
    statistics = (inv_std, eps, xhat, None, running_mean, running_var, momentum)
    return Forward(x, weight, bias, y, *statistics).launches("batchnorm", all_channels)


def batchnorm_eval(x: At, weight: At, bias: At, running_mean: At, running_var: At, y: At, eps: float) -> Launches:
    all_channels = channels_of(x, Ids(None, x.shape[1]))
    statistics = (None, eps, None, None, running_mean, running_var)
    return Forward(x, weight, bias, y, *statistics).launches("batchnorm", all_channels)


def batchnorm_backward(
    dy: At,
    xhat: At,
    weight: At,
    inv_std: At,
    dx: At,
    dweight: At,
    dbias: At,
    channels: At | None,
    outs: At | None,
) -> Launches:
    count = dy.shape[1]
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, count))
    return back.launches("batchnorm", channels_of(dy, Ids.of(channels, count)))


def groupnorm_forward(
    x: At, weight: At, bias: At, y: At, xhat: At | None, inv_std: At, groups: int, eps: float
) -> Launches:
    return Forward(x, weight, bias, y, inv_std, eps, xhat).launches("groupnorm", groups_of(x, groups, None))


def groupnorm_backward(
    dy: At,
    xhat: At,
    weight: At,
    inv_std: At,
    dx: At,
    dweight: At,
    dbias: At,
    groups: int,
    groups_needed: At | None,
    outs: At | None,
) -> Launches:
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, dy.shape[1]))
    return [*back.gradients(groups), *back.launches("groupnorm", groups_of(dy, groups, groups_needed))]


def groupnorm_lanes_forward(
    x: At, weight: At, bias: At, y: At, mean: At, inv_std: At, groups: int, relu: bool, eps: float
) -> Launches:
    most = math.inf if relu else None
    forward = Forward(x, weight, bias, y, inv_std, eps, mean=mean, most=most)
    return forward.launches("groupnorm", groups_of(x, groups, None, x.shape[3]))


def groupnorm_lanes_backward(
    dy: At,
    x: At,
    weight: At,
    bias: At,
    mean: At,
    inv_std: At,
    dx: At,
    dweight: At | None,
    dbias: At | None,
    groups: int,
    relu: bool,
) -> Launches:
    lanes, outs = x.shape[3], Ids(None, x.shape[1])
    back = Backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, outs, math.inf if relu else None)
    gradients = [] if dweight is None else back.gradients(groups, lanes)
    return [*gradients, *back.launches("groupnorm", groups_of(x, groups, None, lanes))]


def layernorm_forward(x: At, weight: At, bias: At, y: At, xhat: At | None, inv_std: At, eps: float) -> Launches:
    return Forward(x, weight, bias, y, inv_std, eps, xhat).launches("groupnorm", places_of(x))


def layernorm_backward(
    dy: At, xhat: At, weight: At, inv_std: At, dx: At, dweight: At, dbias: At, outs: At | None
) -> Launches:
    back = Backward(dy, xhat, weight, None, None, inv_std, dx, dweight, dbias, Ids.of(outs, dy.shape[1]))
    return [*back.gradients(1), *back.launches("groupnorm", places_of(dy))]
