"""A model that a run has trained, in memory: saved as a file for other programs, or run on inputs. Not trained on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.experiment.array_data import as_array
from edgefl.learning.predictor import Logits, Predictor
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.axis_reading import arranged
from edgefl.study.export.formats import check_format, write


class KnownScaling(NamedTuple):
    """By what inputs are scaled, where that need not be looked up in a run's data."""

    scale: float
    shift: float

    def __call__(self) -> tuple[float, float]:
        return self.scale, self.shift


class TrainedModel:
    """What `Client.model` and `Method.model` give.

    graph    its operations
    params   its values by torch's names, float32
    classes  what each output stands for; None: the data's classes, in order
    what     whose model it is and after which round, in words
    """

    def __init__(
        self,
        model: Model,
        what: str,
        classes: tuple[int, ...] | None,
        scaling: Callable[[], tuple[float, float]],
        axes: str = "",
    ) -> None:
        self.graph: Graph = model.graph
        self.params: Params = model.params
        self._unused: Params = model.unused
        self.what, self.classes = what, classes
        self._scaling, self._axes = scaling, axes

    def __repr__(self) -> str:
        return f"<{self.what}>"

    @property
    def model(self) -> Model:
        """Its graph and values, as `simulate(model=...)` goes on from; what forward does not use is kept."""
        return Model(self.graph, self.params, self._unused)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a file by its suffix: .safetensors, which `edgefl.load` and --model read, .pt or .onnx.

        Raises  ValueError for another suffix, or one whose package is not installed; OSError if the disk refuses.
        """
        check_format(Path(path))
        write(Path(path), self.model, self.classes)
        return Path(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the model with its numbers alone, so that it needs no run where it is taken up again.

        Raises  DataError if the run's data, whose scaling is one of these numbers, cannot be had.
        """
        return TrainedModel, (self.model, self.what, self.classes, KnownScaling(*self._scaling()), self._axes)

    def predict(self, x: Any) -> Logits:
        """Logits [N, outputs] of inputs [N, ...] as the run's data have them, which are scaled as in training.

        x       array or tensor of any type of number; its axes are in the order that `axes` says of the run's data, or
                as the model takes them
        Raises  DataError if it has another shape.
        """
        return self._predictor.predict(self._inputs(x))

    def labels(self, x: Any) -> NDArray[np.int64]:
        """The class [N] of the largest logit of each input. Raises DataError like `predict`."""
        return self._predictor.labels(self._inputs(x))

    def _inputs(self, x: Any) -> NDArray[np.float32]:
        plain = arranged(as_array("x", x), self.graph, self._axes)
        scale, shift = self._scaling()
        return plain.astype(np.float32) * np.float32(scale) + np.float32(shift)

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor.of(Model(self.graph, self.params), self.classes)
