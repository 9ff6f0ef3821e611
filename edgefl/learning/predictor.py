"""A model file for use: it computes the logits of inputs. It does not train, and it does not scale samples.

`edgefl.load` is `load` of this module. A typed program may import this module by itself.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import DataError
from edgefl.learning import GraphLearner
from edgefl.models.graph import Graph, Model, model_files
from edgefl.models.graph.class_axis import class_axis_of

Logits = NDArray[np.float32]


class Predictor:
    """A model in memory, which predicts on the fastest backend of this machine.

    path         name of the .safetensors file that the model is read from
    graph        operations of the model. Its inputs are [N, *graph.input_shape]
    class_axis   axis of the classes in outputs with places: 1, or -1 where the graph moves the classes behind the
                 places. A caller may set it
    classes      class that each output stands for. None: the classes of the data, in order
    class_names  name of the class of each output. None: the classes have no names
    int8_activations  whether predictions round the inputs of layers with int8 weights to int8
    """

    def __init__(self, path: str | os.PathLike[str], *, int8_activations: bool = False) -> None:
        model = model_files.load(path)
        classes, names = model_files.classes_of(path, model.graph), model_files.class_names_of(path, model.graph)
        self._hold(model, classes, names, int8_activations)

    @classmethod
    def of(
        cls,
        model: Model,
        classes: tuple[int, ...] | None = None,
        class_names: tuple[str, ...] | None = None,
        *,
        int8_activations: bool = False,
    ) -> Predictor:
        """Make the predictor of a model that is in memory already.

        int8_activations  whether predictions round the inputs of layers with int8 weights to int8
        """
        made = cls.__new__(cls)
        made._hold(model, classes, class_names, int8_activations)
        return made

    def _hold(
        self,
        model: Model,
        classes: tuple[int, ...] | None,
        class_names: tuple[str, ...] | None,
        int8_activations: bool,
    ) -> None:
        self.graph: Graph = model.graph
        self.class_axis = class_axis_of(model.graph)
        self.classes, self.class_names = classes, class_names
        self._learner = GraphLearner(model, int8_activations=int8_activations)

    @property
    def model(self) -> Model:
        """The graph and the parameters, from which `simulate(model=...)` goes on."""
        return Model(self.graph, dict(self._learner.read()))

    def predict(self, x: NDArray[Any]) -> Logits:
        """Compute the logits [N, *output_shape] of float32 inputs [N, *input_shape]. Inputs are scaled like the samples
        in training.

        Raises  DataError if `x` has another type or shape
        """
        expected = self.graph.input_shape
        if not isinstance(x, np.ndarray) or x.dtype != np.float32 or x.shape[1:] != expected or x.ndim == 0:
            found = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise DataError(f"x is {found}; expected float32 [N, {', '.join(map(str, expected))}]")
        if not len(x):
            return np.zeros((0, *self.graph.output_shape), np.float32)
        logits: Logits = self._learner.predict(np.ascontiguousarray(x))
        return logits

    def labels(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Compute the class [N] of the largest logit of each input, or the class [N, *places] of each place. The
        classes lie on `class_axis`. Raises DataError like `predict`.
        """
        return self.named(self.predict(x))

    def decisions(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Compute for each input and output whether the logit is above 0, bool [N, outputs]. For a model that was
        trained with bce a true value means a probability above one half. Raises DataError like `predict`.
        """
        return self.predict(x) > 0

    def named(self, logits: Logits) -> NDArray[np.int64]:
        """Compute the class [N] of the largest logit in each row [N, outputs], or the class of each place.

        Raises DataError for a model of one output.
        """
        if logits.shape[1:] == (1,):
            raise DataError("labels of a model with one output; expected several, one for each class")
        largest = logits.argmax(self.class_axis)
        return largest if self.classes is None else np.array(self.classes)[largest]

    def label_names(self, x: NDArray[Any]) -> list[str]:
        """Compute the name of the class of the largest logit of each input, or the class as a text where the classes
        have no names. Raises DataError like `predict`.
        """
        return self.names_of(self.predict(x))

    def names_of(self, logits: Logits) -> list[str]:
        """Compute the name of the class of the largest logit in each row [N, outputs], or the class as a text where
        the classes have no names. Outputs with places give a list for each axis of the places. Raises DataError for a
        model of one output.
        """
        classes = self.named(logits)
        if self.class_names is None:
            texts: list[str] = classes.astype(str).tolist()
            return texts
        names: list[str] = np.array(self.class_names)[logits.argmax(self.class_axis)].tolist()
        return names


def load(path: str | os.PathLike[str], *, int8_activations: bool = False) -> Predictor:
    """Read the model in a file.

    path    name of a .safetensors file
    int8_activations  whether predictions round the inputs of convolutions and Linear layers with int8 weights to int8
    Raises  GraphError if the file is not a model or contradicts itself, or if it has no int8 weights for
            int8_activations. OSError if the file cannot be opened
    """
    return Predictor(path, int8_activations=int8_activations)
