"""`edgefl convert` writes a torch module of the user's own, with its present weights, into a file for `--model`.

With --explain it lists what edgefl cannot take. The module may be a model in a directory of Hugging Face.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from edgefl.cli.size_arguments import extents
from edgefl.cli.working import note, working
from edgefl.errors import RequestError
from edgefl.experiment.user_code import HELP, found, users_code
from edgefl.models.graph import Model, model_files
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the module to convert, and the file that it is written to."""
    parser.add_argument(
        "factory",
        metavar="MODULE:FACTORY",
        help=HELP,
    )
    parser.add_argument(
        "--input", type=extents, required=True, metavar="C,H,W", help="shape of one example (for example: 3,32,32)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file for the model, whose name ends in .safetensors. --explain writes no file",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="list every operation of the module that edgefl cannot take, and write no file",
    )


def run(options: argparse.Namespace) -> int:
    """Import and convert the module, write the file, and say what the file has."""
    if options.explain:
        return _explain(options)
    if options.output is None:
        raise RequestError("no -o; expected -o FILE, or --explain")
    if options.output.suffix != ".safetensors":
        raise RequestError(f"{options.output}; expected a file that ends in .safetensors")
    check_writable(options.output)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        with working(f"importing and converting {options.factory}"):
            model, seconds = _model(options.factory, options.input)
    for warning in said:
        print(f"edgefl convert: {warning.message}", file=sys.stderr)
    model_files.save(options.output, model)
    scalars = sum(value.size for value in model.params.values())
    if options.json:
        shapes = {"input_shape": model.graph.input_shape, "output_shape": model.graph.output_shape}
        counts = {"operations": len(model.graph.nodes), "parameters": scalars}
        print(json.dumps({"file": str(options.output), **counts, **shapes, **seconds}))
    else:
        took = f"converted in {seconds['seconds']:.1f} s"
        took += f", of which torch.export took {seconds['export_seconds']:.1f} s" if seconds["export_seconds"] else ""
        note(f"{options.output}: {len(model.graph.nodes)} operations, {scalars} parameters, {took}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    """Print every operation that edgefl cannot take. Return 0 if the module is taken, and 2 otherwise."""
    factory = options.factory
    with warnings.catch_warnings(), working(f"importing and reading {factory}"):
        warnings.simplefilter("ignore", UserWarning)
        try:
            from edgefl.torch.model_factory import refusals_of
        except ModuleNotFoundError as error:
            raise RequestError(str(error)) from None
        with users_code(factory):
            refused = refusals_of(_made(factory), factory, options.input)
    if options.json:
        print(json.dumps({"refused": refused}))
    else:
        print("\n".join(refused) or f"{factory}: edgefl takes every operation")
    return 2 if refused else 0


def _model(factory: str, input_shape: tuple[int, ...]) -> tuple[Model, dict[str, float]]:
    """Return the module that the user's code makes as a graph with weights, and the seconds that this took.

    Raises  RequestError if there is no such code or it fails, GraphError for a module that edgefl cannot represent
    """
    try:
        from edgefl.torch.exported_program import export_times
        from edgefl.torch.model_factory import made_by
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    with users_code(factory), export_times() as spent:
        made = _made(factory)
        began = time.perf_counter()
        model = made_by(made, factory, input_shape)
        return model, {"seconds": time.perf_counter() - began, "export_seconds": sum(spent)}


def _made(factory: str) -> object:
    """Return what the text names: an object of the user's code, or the model in a directory of Hugging Face."""
    if Path(factory).is_dir():
        from edgefl.torch.hugging_face import model_in

        return model_in(factory)
    return found(factory)
