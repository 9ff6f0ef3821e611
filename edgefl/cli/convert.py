"""`edgefl convert` writes a torch module of the user's own, with its present weights, into a file for `--model`.

convert_onnx.py has the part for models in ONNX files.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

from edgefl.cli.convert_onnx import is_onnx, onnx_model, onnx_problems
from edgefl.cli.size_arguments import extents
from edgefl.cli.working import note, working
from edgefl.errors import RequestError
from edgefl.experiment.user_code import HELP, found, users_code
from edgefl.models.graph import Model, model_files
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model to convert, and the file that it is written to."""
    parser.add_argument(
        "factory",
        metavar="MODULE:FACTORY",
        help=f"{HELP}. An ONNX file is named by FILE.onnx",
    )
    parser.add_argument(
        "--input",
        type=extents,
        metavar="C,H,W",
        help="shape of one example, such as 3,32,32 (default: the shape in the ONNX file)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file for the model, whose name ends in .safetensors",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print everything that edgefl refuses in an ONNX file, one kind of operation a line, and write nothing",
    )


def run(options: argparse.Namespace) -> int:
    """Convert the model, write the file, and say what the file has. With --explain, print the refused operations."""
    if options.explain:
        return _explain(options)
    if options.output is None:
        raise RequestError("convert without -o; expected -o FILE.safetensors, the file for the model")
    if options.output.suffix != ".safetensors":
        raise RequestError(f"{options.output}; expected a file that ends in .safetensors")
    check_writable(options.output)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        with working(f"{'reading' if is_onnx(options.factory) else 'importing'} and converting {options.factory}"):
            model = onnx_model(options) if is_onnx(options.factory) else _model(options.factory, options.input)
    for warning in said:
        print(f"edgefl convert: {warning.message}", file=sys.stderr)
    model_files.save(options.output, model)
    scalars = sum(value.size for value in model.params.values())
    if options.json:
        shapes = {"input_shape": model.graph.input_shape, "output_shape": model.graph.output_shape}
        counts = {"operations": len(model.graph.nodes), "parameters": scalars}
        print(json.dumps({"file": str(options.output), **counts, **shapes}))
    else:
        note(f"{options.output}: {len(model.graph.nodes)} operations, {scalars} parameters")
    return 0


def _explain(options: argparse.Namespace) -> int:
    """Print what edgefl refuses in an ONNX file. Return 1 if there is something, and 0 otherwise."""
    if not is_onnx(options.factory):
        raise RequestError(f"--explain with {options.factory!r}; expected an ONNX file, FILE.onnx")
    with warnings.catch_warnings(), working(f"reading {options.factory}"):
        warnings.simplefilter("ignore", UserWarning)
        problems = onnx_problems(options)
    if options.json:
        print(json.dumps({"file": options.factory, "problems": problems}))
    else:
        for problem in problems:
            print(problem)
        note(f"{options.factory}: {len(problems)} kinds of operations are refused")
    return int(bool(problems))


def _model(factory: str, input_shape: tuple[int, ...] | None) -> Model:
    """Return the module that the user's code makes, as a graph with weights.

    Raises  RequestError if there is no such code or it fails, GraphError for a module that edgefl cannot represent
    """
    if input_shape is None:
        raise RequestError(f"convert {factory} without --input; expected --input C,H,W, the shape of one example")
    try:
        from edgefl.torch.model_factory import made_by
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    with users_code(factory):
        return made_by(found(factory), factory, input_shape)
