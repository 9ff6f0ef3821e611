"""The model file that a run starts from: its graph and its weights, named by their content.

The settings of a run have "sha256:" and 64 hexadecimal digits in place of a built-in model's name. They are the digest
of the model as it is packed for devices, so the file's name, its folder and its other metadata do not matter. The run's
directory keeps a copy, so that the user's file is needed once. graph/model_files.py defines the form of the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgefl.errors import DataError, GraphError, RunError
from edgefl.experiment.array_data import KEPT
from edgefl.experiment.data.dataset import DataSet, Shape
from edgefl.models.graph import Graph, Model, model_files
from edgefl.models.graph.axis_reading import NCL, arranged, fitting_axes
from edgefl.models.graph.planar import takes
from edgefl.protocol.wire.model_message import digest, packed

SUFFIX = ".safetensors"
NAMED = "sha256:"  # the beginning of the name of a model that came from a file
COPY = "model.safetensors"  # name of the copy in the run's directory


def name_of(model: Model) -> str:
    """Return the name of these weights in this graph."""
    return f"{NAMED}{digest(packed(model)).hex()}"


def read(path: Path) -> Model:
    """Read the model to start from. Raises OSError, or ValueError for a file without a trainable model."""
    if not path.exists():
        raise GraphError(f"{path}: No such file; expected a model that convert or export wrote")
    model = model_files.load(path)
    for name, value in model.params.items():
        if not np.isfinite(value).all():
            raise GraphError(f"{path}: {name} has {value[~np.isfinite(value)][0]}; expected finite values")
    return model


def keep(run: Path, model: Model) -> None:
    """Write the run's own copy."""
    model_files.save(run / COPY, model)


def is_kept(run: Path, model: Model) -> bool:
    """Return whether the run's copy is of this model."""
    try:
        return name_of(model_files.load(run / COPY)) == name_of(model)
    except (GraphError, OSError):
        return False


def kept(run: Path, name: str) -> Model | None:
    """Return the model of that name that the run started from, or None if the model is built in.

    Raises  RunError if the run's copy is gone, or is not that model any more.
    """
    if not name.startswith(NAMED):
        return None
    try:
        model = model_files.load(run / COPY)
    except (GraphError, OSError) as error:
        raise RunError(f"{run / COPY} cannot be read ({error}); expected the model that the run began with") from None
    if (found := name_of(model)) != name:
        raise RunError(f"{run / COPY} is {found}; expected {name}, the model that the run began with")
    return model


def in_order_of(graph: Graph, data: DataSet) -> DataSet:
    """Return the data with sequences in the order of axes that the graph of a model from a file reads.

    Raises  DataError if the data are standardised and the model reads the channels last. The standardisation becomes
            part of an exported model, and such a model has the channels first.
    """
    x = arranged(data.x, graph, NCL)
    if x is data.x:
        return data
    if data.standardised is not None:
        expected = "expected no standardise, or a model that reads the channels first"
        raise DataError(f"{data.name}: standardise with a model that reads the channels last; {expected}")
    x_test = None if data.x_test is None else np.ascontiguousarray(arranged(data.x_test, graph, NCL))
    return replace(data, x=np.ascontiguousarray(x), x_test=x_test)


def check_fits(graph: Graph, name: str, data: DataSet, outputs: Shape, has_labels: bool = True, axes: str = "") -> None:
    """Raise GraphError if a model from a file does not fit the data: it takes examples of another shape, or its number
    of outputs differs from the number of classes or values.

    name     name of the data in the settings
    outputs  outputs that the data need: (classes,), or (values for an example,)
    axes     the order of the data's axes that the settings give
    """
    given = "the data set" if KEPT.fullmatch(name) else f"data={name}"
    if not takes(graph, data.input_shape):
        remedy = f"; axes={other} would fit" if (other := fitting_axes(graph, data.input_shape, axes)) else ""
        raise GraphError(f"the model takes {graph.input_shape}; examples of {given} are {data.input_shape}{remedy}")
    if graph.output_shape != outputs:
        have = " x ".join(map(str, graph.output_shape))
        found = f"{given} has {outputs[0]} {'classes' if has_labels else 'values for an example'}"
        why = f" ({'; '.join(data.notes)})" if data.notes else ""
        raise GraphError(
            f"the model has {have} outputs; {found}; expected equally many{_remedy(graph, outputs, has_labels)}{why}"
        )


def _remedy(graph: Graph, outputs: Shape, has_labels: bool) -> str:
    """Return the remedy for a model whose number of outputs is not the number of classes or values."""
    if graph.output_shape == (1,) and has_labels:
        return ': an output for each class; or loss="bce" for one output and two classes, loss="mse" for numbers'
    if not has_labels and outputs in (graph.output_shape[1:], graph.output_shape[:-1]):
        return ': a label at each place, as loss="cross-entropy" has it'
    if not has_labels and len(graph.output_shape) == 1 and graph.output_shape[0] > 1:
        return ": of classes, y has one whole number, text or boolean for each sample, or one-hot rows"
    return ""
