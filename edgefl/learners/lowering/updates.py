"""Lowers the SGD step: in place, on each trained block as soon as its gradient is complete; then the buffer is free.

A Linear layer's weight gradient is not even stored where plain SGD takes it. With clipping every gradient must exist
first: then the norm is taken over all of them, and the updates come last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from edgefl.graph.operations import Shape
from edgefl.learners.lowering.backward import Gradients, Product
from edgefl.learners.lowering.recorder import Recorder
from edgefl.learners.lowering.schedule import Companion, CompanionKind, Coordinates, Param, Slot, Tensor, TrainedBlock


@dataclass(frozen=True)
class Terms:
    """Which terms the update has; their coefficients are settings of the fit, not of the schedule."""

    momentum: bool = False
    clip: float | None = None
    pull: bool = False
    linear: bool = False

    def states(self) -> tuple[CompanionKind, ...]:
        """The arrays that each trained block has beside it."""
        present: dict[CompanionKind, bool] = {"velocity": self.momentum, "centre": self.pull, "linear": self.linear}
        return tuple(kind for kind, is_present in present.items() if is_present)


def update(recorder: Recorder, passes: Iterable[Gradients], terms: Terms) -> tuple[Companion, ...]:
    """Record the updates of all gradients as `passes` yields them; return the states they use."""
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


def rows_cols_inner(shape: Shape) -> tuple[int, int, int]:
    """A parameter's shape (or a block's) as kernels take it: [rows, cols, inner]."""
    return (shape[0], shape[1] if len(shape) > 1 else 1, math.prod(shape[2:]))


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
        if isinstance(block, Product):
            w = Param(name, recorder.scope.spec.params[name].shape)
            recorder.call("linear_update", block.x, block.dy, w, Slot("hyper"), block.rows, block.ids, block.cols)
            continue
        is_compact = block.ids is not None or block.is_sparse
        shape = (1, 1, *block.values.shape) if is_compact else rows_cols_inner(block.values.shape)
        states = {kind: Companion(kind, name, shape) for kind in terms.states()}
        w = Param(name, shape if block.is_sparse else rows_cols_inner(recorder.scope.spec.params[name].shape))
        beside = (scale, states.get("velocity"), states.get("centre"), states.get("linear"))
        gradient = block.values.view(*shape)
        if block.ids is None:
            recorder.call("sgd", w, gradient, Slot("hyper"), block.rows, block.cols, *beside)
        else:
            _step_at(recorder, w, block.ids, gradient, beside)
        used += states.values()
    return used


def _step_at(
    recorder: Recorder, w: Param, ids: Coordinates, gradient: Tensor, beside: tuple[Slot | Companion | None, ...]
) -> None:
    """The step of some coordinates: they are taken out, moved and put back, so that no other is touched."""
    moved = recorder.new(gradient.shape)
    recorder.call("take_flat", w, ids, moved)
    recorder.call("sgd", moved, gradient, Slot("hyper"), None, None, *beside)
    recorder.call("put_flat", w, ids, moved)
