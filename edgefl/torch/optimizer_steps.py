"""Steps on the trained coordinates of whole parameters, by torch.optim. The gradients are computed elsewhere.

Optimizers see compact copies of the trained coordinates. So velocities, moments, the norm that clips and the further
terms belong to these coordinates only, and every other coordinate keeps its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.lowering.active_ids import RowsCols
from edgefl.learning.optimizers import Adam, Optimizer

Array = NDArray[Any]


@dataclass(frozen=True)
class TrainedCoordinates:
    """Trained coordinates of a parameter: rows and columns, or positions in the flattened parameter, or all."""

    rows: Tensor | None = None
    cols: Tensor | None = None
    flat: Tensor | None = None

    @staticmethod
    def of(axes: RowsCols, flat: NDArray[np.uint32] | None, device: torch.device) -> TrainedCoordinates:
        """Return the coordinates `flat` of the flattened parameter, or the rows and columns `axes` without `flat`."""
        lists = (None, None, flat) if flat is not None else (*axes, None)
        return TrainedCoordinates(
            *(None if ids is None else torch.tensor(ids.astype(np.int64), device=device) for ids in lists)
        )

    @property
    def is_whole(self) -> bool:
        return self.rows is None and self.cols is None and self.flat is None

    def take(self, whole: Tensor) -> Tensor:
        """Return a copy of the values at these coordinates. If all are trained, it may be the tensor itself."""
        if self.flat is not None:
            return whole.reshape(-1)[self.flat]
        block = whole if self.rows is None else whole.index_select(0, self.rows)
        return (block if self.cols is None else block.index_select(1, self.cols)).contiguous()

    def put(self, whole: Tensor, values: Tensor) -> None:
        """Write the values to these coordinates of a contiguous tensor."""
        if self.flat is not None:
            whole.view(-1)[self.flat] = values
        elif self.rows is None and self.cols is not None:
            whole[:, self.cols] = values
        elif self.rows is not None:
            whole[self.rows if self.cols is None else (self.rows[:, None], self.cols)] = values


class Stepper:
    """The steps of one fit: its settings, and the state that the optimizer keeps from step to step.

    wholes     trained parameters of the shapes of the specification, which are written
    positions  trained coordinates of each parameter
    settings   optimizer
    options    options of the fit, of which the steps use `pull` and `linear`
    """

    def __init__(
        self,
        wholes: Mapping[str, Tensor],
        positions: Mapping[str, TrainedCoordinates],
        settings: Optimizer,
        options: FitOptions,
    ) -> None:
        pull, linear = options.pull, options.linear
        self._wholes, self._positions, self._clip = wholes, positions, settings.clip
        self._moved = {name: positions[name].take(whole) for name, whole in wholes.items()}
        self._move = _made(list(self._moved.values()), settings)
        self._strength = pull[0] if pull else 0.0
        self._centre = {name: self._at(name, pull[1]) for name in wholes} if pull else {}
        self._linear = {name: self._at(name, linear) for name in wholes} if linear is not None else {}

    def _at(self, name: str, values: Mapping[str, Array]) -> Tensor:
        whole = self._wholes[name]
        return self._positions[name].take(torch.tensor(np.asarray(values[name])).to(whole.device, whole.dtype))

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor]) -> None:
        """Take one step by the gradients of the whole parameters, which have the shapes of the specification."""
        if not self._moved:
            return
        found = {name: self._positions[name].take(gradients[name]).contiguous() for name in self._moved}
        scale = None if self._clip is None else _scale(found.values(), self._clip)
        for name, moved in self._moved.items():
            if scale is not None:
                found[name] = found[name] * scale
            if self._centre:
                found[name] = found[name] + self._strength * (moved - self._centre[name])
            if self._linear:
                found[name] = found[name] + self._linear[name]
        self._move(list(found.values()))
        for name, moved in self._moved.items():
            if not self._positions[name].is_whole:
                self._positions[name].put(self._wholes[name], moved)


def _scale(gradients: Iterable[Tensor], clip: float) -> Tensor:
    """Return the factor that keeps the norm of all gradients within `clip`, like torch.nn.utils.clip_grad_norm_."""
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return (clip / (norm + 1e-6)).clamp(max=1.0)


def _made(values: list[Tensor], settings: Optimizer) -> Callable[[list[Tensor]], None]:
    """Return the function that moves the values by their gradients.

    It calls torch.optim's functions, because torch.optim's classes load its compiler (5 s, 70 MB).
    """
    if isinstance(settings, Adam):
        return _adam(values, settings)
    velocities: list[Tensor | None] = [None] * len(values)
    chosen: dict[str, Any] = {"weight_decay": settings.weight_decay, "momentum": settings.momentum, "lr": settings.lr}
    fixed: dict[str, Any] = {"dampening": 0.0, "maximize": False, "has_sparse_grad": False, "foreach": False}
    return lambda found: sgd(values, found, velocities, nesterov=settings.nesterov, **chosen, **fixed)


def _adam(values: list[Tensor], settings: Adam) -> Callable[[list[Tensor]], None]:
    means, squares = [torch.zeros_like(value) for value in values], [torch.zeros_like(value) for value in values]
    steps = [torch.zeros(()) for _ in values]
    (beta1, beta2), move = settings.betas, adamw if settings.decoupled else adam
    chosen: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay, "eps": settings.eps}
    fixed: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "amsgrad": False, "maximize": False, "foreach": False}
    return lambda found: move(values, found, means, squares, [], steps, **chosen, **fixed)
