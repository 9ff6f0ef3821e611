"""The part of `edgefl convert` that takes a torch module: the module as a model, or what edgefl refuses in the module.

The module comes from the user's code, or from a directory of Hugging Face.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.experiment.user_code import found, users_code
from edgefl.models.graph import Model


def torch_model(options: argparse.Namespace) -> tuple[Model, dict[str, float]]:
    """Return the module that the user's code makes as a graph with weights, and the seconds that this took.

    Raises  RequestError if there is no such code or it fails, or without --input or torch, GraphError for a module that
            edgefl cannot represent
    """
    factory, shape = options.factory, _shape(options)
    try:
        from edgefl.torch.exported_program import export_times
        from edgefl.torch.model_factory import made_by
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    with users_code(factory), export_times() as spent:
        made = _made(factory)
        began = time.perf_counter()
        model = made_by(made, factory, shape)
        return model, {"seconds": time.perf_counter() - began, "export_seconds": sum(spent)}


def torch_problems(options: argparse.Namespace) -> list[str]:
    """Return one line for each operation of the module that edgefl refuses. Raises the errors of `torch_model`."""
    factory, shape = options.factory, _shape(options)
    try:
        from edgefl.torch.model_factory import refusals_of
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    with users_code(factory):
        return refusals_of(_made(factory), factory, shape)


def _shape(options: argparse.Namespace) -> tuple[int, ...]:
    shape: tuple[int, ...] | None = options.input
    if shape is None:
        raise RequestError(
            f"convert {options.factory} without --input; expected --input C,H,W, the shape of one example"
        )
    return shape


def _made(factory: str) -> object:
    """Return what the text names: an object of the user's code, or the model in a directory of Hugging Face."""
    if Path(factory).is_dir():
        from edgefl.torch.hugging_face import model_in

        return model_in(factory)
    return found(factory)
