"""Models as safetensors files, with the graph's JSON in the metadata. This module touches the disk.

A file holds exactly the parameters of its graph under torch's names, so any safetensors reader can open it.
file_arrays.py has their types: float32, and fewer bits for quantized parameters.
The metadata key "edgefl.graph" has the text of json.dumps. The optional key "edgefl.classes" is a JSON list that says
for which class each output stands, and "edgefl.class_names" a JSON list of the names of these classes. The optional key
"edgefl.unused" is a JSON list of the names of further values in the file, which no operation of the graph uses
(Model.unused). Nothing in a file is evaluated. The format is described in the README of huggingface/safetensors,
"Format".
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from edgefl.errors import GraphError
from edgefl.kernels.memory import aligned_bytes
from edgefl.models.graph.class_axis import outputs_of_classes
from edgefl.models.graph.file_arrays import arrays_of, expected_arrays, params_of
from edgefl.models.graph.graph import Graph, Model, Params
from edgefl.models.graph.json import Limits, dumps, loads
from edgefl.system import safetensors_files
from edgefl.system.durable_files import write_atomically

GRAPH_KEY, CLASSES_KEY, UNUSED_KEY = "edgefl.graph", "edgefl.classes", "edgefl.unused"
NAMES_KEY = "edgefl.class_names"
CONVERT = "`edgefl convert MODULE:FACTORY --input C,H,W -o FILE.safetensors`"
_TORCH = f"write the model as a torch module, and {CONVERT}"
_LOAD = f"let FACTORY load the weights into its module, and {CONVERT}"
FOREIGN = {  # suffixes -> advice for models that other tools wrote
    ".onnx": "an ONNX file is converted first: `edgefl convert FILE.onnx -o FILE.safetensors`",
    ".tflite": f"edgefl does not read TFLite: {_TORCH}",
    ".h5": f"edgefl does not read Keras models: {_TORCH}",
    ".keras": f"edgefl does not read Keras models: {_TORCH}",
    ".pt": f"edgefl does not run what a .pt file may hold: {_LOAD}",
    ".pth": f"edgefl does not run what a .pth file may hold: {_LOAD}",
    ".ckpt": f"edgefl does not run what a checkpoint may hold: {_LOAD}",
    ".bin": f"edgefl does not run what a .bin file may hold: {_LOAD}",
}


def refuse_foreign(path: str | os.PathLike[str]) -> None:
    """Raise GraphError for a file name of another tool. The message says how to make a model file of such a file."""
    suffix = Path(path).suffix.lower()
    if suffix in FOREIGN:
        raise GraphError(f"{os.fspath(path)}: {FOREIGN[suffix]}")


def save(
    path: str | os.PathLike[str],
    model: Model,
    classes: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
) -> None:
    """Write `model` so that `path` holds either its old content or all of the new one, also after a loss of power.

    classes      class for which each output stands. None: the classes of the data, in order
    class_names  name of the class of each output. None: the classes have no names
    Raises  GraphError if the parameters do not belong to the graph, OSError if the disk refuses.
    """
    model.graph.check(model.params)
    values, halves = arrays_of({**model.params, **model.beside()})
    metadata = {GRAPH_KEY: dumps(model.graph)} | class_metadata(classes, class_names)
    metadata |= {UNUSED_KEY: json.dumps(sorted(model.unused))} if model.unused else {}
    write_atomically(Path(path), safetensors_files.content(values, metadata, halves))


def load(path: str | os.PathLike[str], limits: Limits | None = None) -> Model:
    """Return the model in a file. Header and graph are checked before values are read, and the graph against `limits`.

    Each parameter is read once, into memory of its own.
    Raises  GraphError if the file is not a model or contradicts itself, OSError if it cannot be opened.
    """
    refuse_foreign(path)
    with open(path, "rb"):  # raises OSError for an unreadable path, because safe_open has errors of its own
        pass
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            graph, unused = _stored_graph(file, limits)
            params = _values(Path(path), graph)
            return Model(graph, params, {name: _unused(file, Path(path), name, params) for name in unused})
    except safetensors.SafetensorError as error:
        raise GraphError(
            f"{os.fspath(path)}: cannot be read ({error}); expected an undamaged .safetensors file"
        ) from None
    except GraphError as error:
        raise GraphError(f"{os.fspath(path)}: {error}") from None


def _values(path: Path, graph: Graph) -> Params:
    """Read the parameters of the graph from a file whose header has been checked."""
    try:
        arrays = safetensors_files.read_arrays(path, expected_arrays(graph), aligned_bytes)
        return params_of(graph, arrays)
    except (KeyError, TypeError, ValueError) as error:  # another file has taken its place since
        raise GraphError(f"values cannot be read ({error!r}); expected the file whose header was read before") from None


def _unused(file: safetensors.safe_open, path: Path, name: str, params: Params) -> np.ndarray:
    """Return an unused value. It is the array of a parameter with equal bits, as tied weights have two names."""
    whole = {each: value for each, value in params.items() if isinstance(value, np.ndarray)}
    same = safetensors_files.same_values(path, name, whole)
    return file.get_tensor(name) if same is None else params[same]


def class_metadata(classes: Sequence[int] | None, class_names: Sequence[str] | None) -> dict[str, str]:
    """Return the metadata about the classes of the outputs, for a safetensors file or an ONNX file."""
    listed = {CLASSES_KEY: classes, NAMES_KEY: class_names}
    return {key: json.dumps(list(values)) for key, values in listed.items() if values is not None}


def classes_of(path: str | os.PathLike[str], graph: Graph) -> tuple[int, ...] | None:
    """Return the class for which each output of the model in a file stands.

    graph   graph of the model in the file
    Returns None if the file lists no classes: the outputs are then the classes of the data, in order.
    Raises  GraphError if the file does not list as many integers as the model has outputs.
    """
    return _listed(path, CLASSES_KEY, graph, int, "integers")


def class_names_of(path: str | os.PathLike[str], graph: Graph) -> tuple[str, ...] | None:
    """Return the name of the class of each output of a file's model, whose graph is `graph`, or None without names.

    Raises  GraphError if that is not a list of as many texts as the model has outputs.
    """
    return _listed(path, NAMES_KEY, graph, str, "texts")


def _listed(path: str | os.PathLike[str], key: str, graph: Graph, kind: type, kinds: str) -> tuple[Any, ...] | None:
    """Return the metadata's list with a value of this type for each output, or None without such a key."""
    outputs = outputs_of_classes(graph)
    with safetensors.safe_open(path, framework="numpy") as file:
        text = (file.metadata() or {}).get(key)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != outputs or not all(type(each) is kind for each in found):
        raise GraphError(f"{os.fspath(path)}: {key} is {text[:80]!r}; expected a list of {outputs} {kinds}")
    return tuple(found)


def _stored_graph(file: safetensors.safe_open, limits: Limits | None) -> tuple[Graph, set[str]]:
    """Return the graph in the metadata and the names of the unused values.

    Raises  GraphError unless the header lists exactly these values and the parameters of the graph.
    """
    metadata = file.metadata() or {}
    text = metadata.get(GRAPH_KEY)
    if text is None:
        cure = f"load them into their module with safetensors.torch.load_file in FACTORY, and {CONVERT}"
        raise GraphError(f"weights without a graph (metadata keys {sorted(metadata)}; expected {GRAPH_KEY!r}); {cure}")
    graph = loads(text, limits)
    expected, unused = expected_arrays(graph), _unused_names(metadata.get(UNUSED_KEY, "[]"))
    names = set(file.keys()) - unused
    if names != expected.keys():
        raise GraphError(f"parameters {sorted(names ^ expected.keys())} are only in the file, or only in its graph")
    if missing := sorted(unused - set(file.keys())):
        raise GraphError(f"{UNUSED_KEY} names {missing[0]!r}; expected names of values in the file")
    for name, array in expected.items():
        header = file.get_slice(name)
        shape, dtype = tuple(header.get_shape()), header.get_dtype()
        if (shape, dtype) != (array.shape, array.kind):
            raise GraphError(f"{name}: {dtype} of shape {shape}; expected {array.kind} {array.shape}")
    return graph, unused


def _unused_names(text: str) -> set[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise GraphError(f"{UNUSED_KEY} is {text[:80]!r}; expected a list of names")
    return set(found)
