"""A model that a run has trained, in memory: saved as a file for other programs, or run on inputs. Not trained on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.predictor import Logits, Predictor
from edgefl.models.graph import Graph, Model, Params
from edgefl.study.export.formats import check_format, write


class TrainedModel:
    """What `Client.model` and `Method.model` give.

    graph    its operations
    params   its values by torch's names, float32
    classes  what each output stands for; None: the data's classes, in order
    what     whose model it is and after which round, in words
    """

    def __init__(
        self, model: Model, what: str, classes: tuple[int, ...] | None, scaling: Callable[[], tuple[float, float]]
    ) -> None:
        self.graph: Graph = model.graph
        self.params: Params = model.params
        self.what, self.classes = what, classes
        self._scaling = scaling

    def __repr__(self) -> str:
        return f"<{self.what}>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a file by its suffix: .safetensors, which `edgefl.load` and --model read, .pt or .onnx.

        Raises  ValueError for another suffix, or one whose package is not installed; OSError if the disk refuses.
        """
        check_format(Path(path))
        write(Path(path), Model(self.graph, self.params), self.classes)
        return Path(path)

    def predict(self, x: Any) -> Logits:
        """Logits [N, outputs] of inputs [N, ...] as the run's data have them, which are scaled as in training.

        x       array or tensor of any type of number
        Raises  DataError if it has another shape.
        """
        return self._predictor.predict(self._inputs(x))

    def labels(self, x: Any) -> NDArray[np.int64]:
        """The class [N] of the largest logit of each input. Raises DataError like `predict`."""
        return self._predictor.labels(self._inputs(x))

    def _inputs(self, x: Any) -> NDArray[np.float32]:
        plain = np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
        scale, shift = self._scaling()
        return plain.astype(np.float32) * np.float32(scale) + np.float32(shift)

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor.of(Model(self.graph, self.params), self.classes)
