"""The part of `edgefl convert` that takes an ONNX file: the model in the file, or what edgefl refuses in the file."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.models.graph import Model

SUFFIX = ".onnx"


def is_onnx(text: str) -> bool:
    """Return whether the model on the command line is an ONNX file, and not MODULE:FACTORY."""
    return Path(text).suffix.lower() == SUFFIX


def onnx_model(options: argparse.Namespace) -> Model:
    """Return the model in the ONNX file, with the shape of one example from --input where the file leaves it open.

    Raises  RequestError if there is no such file or the package onnx is missing, GraphError for a file that is damaged
            or that has operations which edgefl lacks
    """
    path = _existing(options.factory)
    try:
        from edgefl.models.onnx.onnx_files import load_onnx
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    return load_onnx(path, options.input)


def onnx_problems(options: argparse.Namespace) -> list[str]:
    """Return one line for each kind of node that edgefl refuses in the ONNX file.

    Raises  the errors of `onnx_model`
    """
    path = _existing(options.factory)
    try:
        from edgefl.models.onnx.onnx_files import explain_onnx
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    return explain_onnx(path, options.input)


def _existing(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise RequestError(f"{path} is not a file; expected an ONNX file")
    return path
