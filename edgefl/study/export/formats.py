"""The formats of exported models, by the suffix of the file. Each format has a file of its own for its content."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from edgefl.errors import RunError
from edgefl.models.graph import Model, model_files
from edgefl.models.graph.quantization import dequantize
from edgefl.study.export.original_units import is_in_original_units
from edgefl.system.durable_files import write_atomically

Classes = Sequence[int] | None
Names = Sequence[str] | None


def check_format(path: Path) -> None:
    """Raise ValueError for a suffix outside FORMATS, or for a suffix that needs a package which is not installed."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}; expected a file that ends in {', '.join(FORMATS)}")
    try:
        importlib.import_module(FORMATS[path.suffix][1])
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None


def write(path: Path, model: Model, classes: Classes = None, class_names: Names = None) -> None:
    """Write the model, whole or not at all.

    classes      class of each output. None: the classes of the data, in order
    class_names  name of the class of each output. None: the classes have no names
    Raises       GraphError for a model that the format cannot express, OSError if the disk refuses
    """
    FORMATS[path.suffix][0](path, model, classes, class_names)


def _write_state_dict(path: Path, model: Model, classes: Classes, class_names: Names) -> None:
    if is_in_original_units(model.graph):
        kinds = "expected .safetensors or .onnx, which have layers for its means and spreads"
        raise RunError(f"{path}: a state dict cannot standardise its inputs, as this model needs; {kinds}")
    from edgefl.torch.state_dict import write_state_dict

    content = io.BytesIO()
    write_state_dict(dequantize(model), content)
    write_atomically(path, content.getvalue())


def _write_onnx(path: Path, model: Model, classes: Classes, class_names: Names) -> None:
    from edgefl.study.export.onnx_nodes import to_onnx

    write_atomically(path, to_onnx(dequantize(model), classes, class_names))


FORMATS: dict[str, tuple[Callable[[Path, Model, Classes, Names], None], str]] = {  # suffix -> writer, module to load
    ".safetensors": (model_files.save, "edgefl.models.graph.model_files"),
    ".pt": (_write_state_dict, "edgefl.torch"),
    ".onnx": (_write_onnx, "edgefl.study.export.onnx_nodes"),
}
