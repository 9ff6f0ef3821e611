"""The lowering of the steps of SGD and Adam. Each trained block is updated in place as soon as its gradient is
complete, and then the gradient's buffer is free.

Plain SGD does not even store the weight gradient of a Linear layer. With clipping every gradient must exist first: the
norm is taken over all of them, and the updates come last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgefl.kernels.arrays import Index
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.lowering.gradients import DeferredWeightGradient, Gradients, rows_cols_inner
from edgefl.learning.lowering.mask_zeroing import mask
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Companion, CompanionKind, Param, Slot, Tensor, TrainedBlock
from edgefl.learning.optimizers import Adam, Optimizer, Saved


@dataclass(frozen=True)
class Terms:
    """The terms of the update, and the number format of the values that wait for the backward pass.

    The coefficients of the terms are settings of the fit and not of the schedule.
    """

    momentum: bool = False
    clip: float | None = None
    pull: bool = False
    linear: bool = False
    nesterov: bool = False
    adam: bool = False
    saved: Saved = "fp32"
    micro_batch: int = 0

    @property
    def is_plain(self) -> bool:
        """Return whether the update is that of plain SGD."""
        return replace(self, saved="fp32", micro_batch=0) == Terms()

    @staticmethod
    def of(optimizer: Optimizer, options: FitOptions = FitOptions()) -> Terms:
        """Return the terms of the steps that a fit takes with this optimizer and these options."""
        has_pull, has_linear = options.pull is not None, options.linear is not None
        if isinstance(optimizer, Adam):
            return Terms(False, optimizer.clip, has_pull, has_linear, adam=True, **_of_batch(optimizer))
        momentum, nesterov = optimizer.momentum > 0, optimizer.nesterov
        return Terms(momentum, optimizer.clip, has_pull, has_linear, nesterov, **_of_batch(optimizer))

    def states(self) -> tuple[CompanionKind, ...]:
        """Return the kinds of arrays that each trained block has in addition to its values."""
        present: dict[CompanionKind, bool] = {
            "velocity": self.momentum, "mean": self.adam, "square": self.adam, "centre": self.pull,
            "linear": self.linear,
        }  # fmt: skip
        return tuple(kind for kind, is_present in present.items() if is_present)


def _of_batch(optimizer: Optimizer) -> dict[str, Any]:
    """Return the terms about how a batch passes through the model."""
    return {"saved": optimizer.saved, "micro_batch": optimizer.micro_batch}


def update(recorder: Recorder, passes: Iterable[Gradients], terms: Terms) -> tuple[Companion, ...]:
    """Record the updates of all gradients as `passes` yields them. Return the states that the updates use."""
    if terms.adam:
        recorder.call("begin_adam", Slot("adam"), Slot("adam_steps"), Slot("rates"))
    states: list[Companion] = []
    waiting: Gradients = {}
    for gradients in passes:
        if terms.clip is None:
            states += _step(recorder, gradients, terms)
        waiting |= gradients
    if terms.clip is not None:
        _measure(recorder, waiting, terms.clip)
        states += _step(recorder, waiting, terms)
    return tuple(states)


def _measure(recorder: Recorder, gradients: Gradients, clip: float) -> None:
    recorder.call("fill_zero", Slot("total_bits"))
    for block in gradients.values():
        assert isinstance(block, TrainedBlock)
        recorder.call("sum_squares", block.values, Slot("total"))
    recorder.call("clip_scale", Slot("total"), clip, Slot("clip"))


def _step(recorder: Recorder, gradients: Gradients, terms: Terms) -> list[Companion]:
    used: list[Companion] = []
    scale = None if terms.clip is None else Slot("clip")
    for name, block in gradients.items():
        if isinstance(block, DeferredWeightGradient):
            w = Param(name, recorder.scope.spec.params[name].shape)
            recorder.call("linear_update", block.x, block.dy, w, Slot("hyper"), block.rows, block.ids, block.cols)
            mask(recorder, name, w)
            continue
        is_list = block.is_sparse or block.flat is not None
        shape = (1, 1, *block.values.shape) if is_list else rows_cols_inner(block.values.shape)
        states = {kind: Companion(kind, name, shape) for kind in terms.states()}
        used += states.values()
        if block.flat is not None:
            _step_at(recorder, terms, name, block, scale, states)
            continue
        w = Param(name, shape if block.is_sparse else rows_cols_inner(recorder.scope.spec.params[name].shape))
        _move(recorder, terms, (w, block.values.view(*shape)), (block.rows, block.cols), scale, states)
        if scale is not None:
            mask(recorder, name, w)  # a scale that is NaN turns zeros into NaN
    return used


def _step_at(
    recorder: Recorder,
    terms: Terms,
    name: str,
    block: TrainedBlock,
    scale: Slot | None,
    states: Mapping[CompanionKind, Companion],
) -> None:
    """Record the step of the coordinates of a mask: they are copied out of the parameter, moved, and written back."""
    assert block.flat is not None
    count = block.flat.size
    whole, moved = Param(name, (math.prod(recorder.scope.spec.params[name].shape),)), recorder.new((count,))
    recorder.call("take_flat", whole, block.flat, moved)
    _move(recorder, terms, (moved.view(1, 1, count), block.values.view(1, 1, count)), (None, None), scale, states)
    recorder.call("put_flat", whole, block.flat, moved)


def _move(
    recorder: Recorder,
    terms: Terms,
    moved: tuple[Param | Tensor, Tensor],
    where: tuple[Index, Index],
    scale: Slot | None,
    states: Mapping[CompanionKind, Companion],
) -> None:
    """Record the step of one block by its gradient."""
    others = (states.get("centre"), states.get("linear"))
    if terms.adam:
        recorder.call("adam", *moved, Slot("rates"), *where, states["mean"], states["square"], scale, *others)
    elif terms.nesterov:
        recorder.call("nesterov", *moved, Slot("hyper"), *where, states["velocity"], scale, *others)
    else:
        recorder.call("sgd", *moved, Slot("hyper"), *where, scale, states.get("velocity"), *others)
