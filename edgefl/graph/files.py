"""Models as files: safetensors, with the graph's JSON in the metadata. The world layer: this touches the disk.

A file holds exactly the parameters of its graph as float32 under torch's names, so any safetensors reader can open it;
the metadata key "edgefl.graph" has the text of graph_json.dumps. Nothing in a file is evaluated.
Source of the format: huggingface/safetensors, README "Format".
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from edgefl.durable import write_atomically
from edgefl.errors import GraphError
from edgefl.graph.graph import Graph, Model
from edgefl.graph.json import Limits, dumps, loads

GRAPH_KEY = "edgefl.graph"
FLOAT32 = "F32"  # safetensors' name of the type


def save(path: str | os.PathLike[str], model: Model) -> None:
    """Write `model` so that `path` holds either its old content or all of the new one, also after a loss of power.

    Raises  GraphError if the parameters do not belong to the graph, OSError if the disk refuses.
    """
    model.graph.check(model.params)
    params = {name: np.ascontiguousarray(value) for name, value in model.params.items()}
    write_atomically(Path(path), safetensors.numpy.save(params, metadata={GRAPH_KEY: dumps(model.graph)}))


def load(path: str | os.PathLike[str], limits: Limits | None = None) -> Model:
    """The model in a file. Graph and header are checked, the graph against `limits`, before values are read.

    Raises  GraphError if the file is not a model, or contradicts itself; OSError if it cannot be opened.
    """
    with open(path, "rb"):  # an unreadable path is an OSError here; safe_open has errors of its own
        pass
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            graph = _stored_graph(file, limits)
            return Model(graph, {name: file.get_tensor(name) for name in graph.parameters()})
    except (safetensors.SafetensorError, GraphError) as error:
        raise GraphError(f"{os.fspath(path)}: {error}") from None


def _stored_graph(file: safetensors.safe_open, limits: Limits | None) -> Graph:
    """The graph in the metadata, once the header lists exactly its parameters."""
    metadata = file.metadata() or {}
    if GRAPH_KEY not in metadata:
        raise GraphError(f"metadata keys {sorted(metadata)}; expected {GRAPH_KEY!r}")
    graph = loads(metadata[GRAPH_KEY], limits)
    expected, names = graph.parameters(), set(file.keys())
    if names != expected.keys():
        raise GraphError(f"parameters {sorted(names ^ expected.keys())} are only in the file or only in its graph")
    for name, info in expected.items():
        header = file.get_slice(name)
        shape, dtype = tuple(header.get_shape()), header.get_dtype()
        if (shape, dtype) != (info.shape, FLOAT32):
            raise GraphError(f"{name}: {dtype} of shape {shape}; expected {FLOAT32} {info.shape}")
    return graph
