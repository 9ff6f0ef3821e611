"""A trained model in memory, which can be saved as a file for other programs, or run on inputs. It cannot be trained
here.
"""

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
    """The scale and shift of inputs, stored so that they need not be looked up in a run's data."""

    scale: float
    shift: float

    def __call__(self) -> tuple[float, float]:
        return self.scale, self.shift


class TrainedModel:
    """A trained model, which `Client.model` and `Method.model` return.

    graph    operations of the model
    params   values of the parameters by torch's names, float32
    classes  class that each output stands for. None: the classes of the data, in order
    what     sentence that says whose model it is and after which round
    class_names  name of the class of each output. None: the classes have no names
    """

    def __init__(
        self,
        model: Model,
        what: str,
        classes: tuple[int, ...] | None,
        scaling: Callable[[], tuple[float, float]],
        axes: str = "",
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        self.graph: Graph = model.graph
        self.params: Params = model.params
        self._unused: Params = model.unused
        self.what, self.classes, self.class_names = what, classes, class_names
        self._scaling, self._axes = scaling, axes

    def __repr__(self) -> str:
        return f"<{self.what}>"

    @property
    def model(self) -> Model:
        """The graph and the parameters, from which `simulate(model=...)` goes on. Parameters that the forward pass does
        not use are kept.
        """
        return Model(self.graph, self.params, self._unused)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file whose suffix names the format: .safetensors, which `edgefl.load` and --model read,
        .pt or .onnx. Return the path.

        Raises  ValueError for another suffix, or for a format whose package is not installed, OSError if the
                disk refuses
        """
        check_format(Path(path))
        write(Path(path), self.model, self.classes, self.class_names)
        return Path(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model with its numbers alone, so that it needs no run where it is unpickled.

        Raises  DataError if the run's data, whose scaling is one of these numbers, cannot be had.
        """
        scaling = KnownScaling(*self._scaling())
        return TrainedModel, (self.model, self.what, self.classes, scaling, self._axes, self.class_names)

    def predict(self, x: Any) -> Logits:
        """Compute the logits [N, outputs] of inputs [N, ...] in the units of the run's data. The inputs are scaled as
        in training.

        x       array or tensor of any numeric type. The axes are in the order that the setting `axes` of the run says,
                or in the order of the model's inputs
        Raises  DataError if `x` has another shape
        """
        return self._predictor.predict(self._inputs(x))

    def labels(self, x: Any) -> NDArray[np.int64]:
        """Compute the class [N] of the largest logit of each input. Raises DataError like `predict`."""
        return self._predictor.labels(self._inputs(x))

    def label_names(self, x: Any) -> list[str]:
        """Compute the name of the class of the largest logit of each input, or the class as a text where the classes
        have no names. Raises DataError like `predict`.
        """
        return self._predictor.label_names(self._inputs(x))

    def _inputs(self, x: Any) -> NDArray[np.float32]:
        plain = arranged(as_array("x", x), self.graph, self._axes)
        scale, shift = self._scaling()
        return plain.astype(np.float32) * np.float32(scale) + np.float32(shift)

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor.of(Model(self.graph, self.params), self.classes, self.class_names)
