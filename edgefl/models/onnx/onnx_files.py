"""ONNX files on disk as models, with weights that lie in a file beside the model. This module touches the disk."""

from __future__ import annotations

import os
from pathlib import Path

from edgefl.errors import GraphError
from edgefl.models.graph.graph import Model
from edgefl.models.graph.operations import Shape
from edgefl.models.onnx.graph_reading import OnnxReading
from edgefl.models.onnx.onnx_content import read_content
from edgefl.models.onnx.refusals import lines

MOST_BYTES = (1 << 30) + (64 << 20)  # bytes of one file, and bytes of the weights in other files: 2**28 parameters


def load_onnx(path: str | os.PathLike[str], input_shape: Shape | None = None) -> Model:
    """Return the model in an ONNX file.

    input_shape  shape of one sample, for extents that the file leaves open
    Raises       GraphError that names what is damaged, or what edgefl has no operation for, and OSError
    """
    path = Path(path)
    try:
        return _reading(path, input_shape).model()
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def explain_onnx(path: str | os.PathLike[str], input_shape: Shape | None = None) -> list[str]:
    """Return a line for each kind of node for which edgefl refuses a file, and no line for a file that it takes.

    Raises  GraphError for a file that is damaged, and OSError
    """
    path = Path(path)
    try:
        reading = _reading(path, input_shape)
        if not reading.causes:
            reading.model()
        return lines(reading.causes)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def _reading(path: Path, input_shape: Shape | None) -> OnnxReading:
    if not path.is_file():
        raise GraphError("no such file; expected an ONNX file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise GraphError(f"{size} bytes; the limit is {MOST_BYTES}")
    return OnnxReading(read_content(path.read_bytes(), _Beside(path.parent).read), input_shape)


class _Beside:
    """The folder of a model, whose files may hold weights. All reads together are bounded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._left = MOST_BYTES

    def read(self, location: str, offset: int, length: int) -> bytes:
        """Return bytes of a file in the folder.

        Raises  GraphError for a file outside the folder, or one that is too short, and if too much is read
        """
        shown = location[:200]
        if not location or "\0" in location or Path(location).is_absolute():
            raise GraphError(f"weights in {shown!r}; expected the name of a file beside the model")
        found = (self._folder / location).resolve()
        if self._folder not in found.parents or not found.is_file():
            raise GraphError(f"weights in {shown!r}, which is not in {self._folder}; expected a file beside the model")
        if length > self._left:
            raise GraphError(f"{length} more bytes of weights; the limit of {MOST_BYTES} bytes leaves {self._left}")
        self._left -= length
        with found.open("rb") as file:
            if os.fstat(file.fileno()).st_size < offset + length:
                raise GraphError(f"bytes {offset} to {offset + length} of {shown!r}; expected a longer file")
            file.seek(offset)
            return file.read(length)
