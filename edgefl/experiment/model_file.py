"""The model file that a run starts from: its graph and its weights, named by their content. Not the file's form
(graph/model_files.py) nor what is trained.

The settings of a run have "sha256:" and 64 hexadecimal digits in place of a built-in model's name: the digest of the
model as it is packed for devices, so the file's name, its place and other metadata in it do not matter. The run's
directory keeps a copy, so that the user's file is needed once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgefl.errors import GraphError, RunError
from edgefl.models.graph import Graph, Model, model_files
from edgefl.models.graph.planar import takes
from edgefl.protocol.wire.model_message import digest, pack

SUFFIX = ".safetensors"
NAMED = "sha256:"  # what the name of a model that came from a file begins with
COPY = "model.safetensors"  # of it, in the run's directory


def name_of(model: Model) -> str:
    """The name of these weights in this graph."""
    return f"{NAMED}{digest(pack(model)).hex()}"


def read(path: Path) -> Model:
    """The model to start from. Raises ValueError for a file that is none, or cannot be trained; OSError."""
    model = model_files.load(path)
    for name, value in model.params.items():
        if not np.isfinite(value).all():
            raise GraphError(f"{path}: {name} has {value[~np.isfinite(value)][0]}; expected finite values")
    return model


def keep(run: Path, model: Model) -> None:
    """Writes the run's own copy."""
    model_files.save(run / COPY, model)


def is_kept(run: Path, model: Model) -> bool:
    """Whether the run's copy is of this model."""
    try:
        return name_of(model_files.load(run / COPY)) == name_of(model)
    except (GraphError, OSError):
        return False


def kept(run: Path, name: str) -> Model | None:
    """The model of that name that the run started from; None if it is a built-in one.

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


def check_fits(graph: Graph, data: str, input_shape: tuple[int, ...], classes: int, has_labels: bool = True) -> None:
    """Raises GraphError if a model from a file takes other examples than the data's, or has another number of outputs
    than they have classes, or values.
    """
    if not takes(graph, input_shape):
        raise GraphError(f"the model takes {graph.input_shape}; examples of data={data} are {input_shape}")
    if graph.output_shape != (classes,):
        outputs = " x ".join(map(str, graph.output_shape))
        found = f"data={data} has {classes} {'classes' if has_labels else 'values for an example'}"
        raise GraphError(f"the model has {outputs} outputs; {found}; expected as many")
