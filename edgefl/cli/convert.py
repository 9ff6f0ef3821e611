"""`edgefl convert` writes a model of the user's own, with its present weights, into a file for `--model`.

With --explain it lists what edgefl cannot take. convert_torch.py has the part for torch modules, convert_onnx.py the
part for ONNX files.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from edgefl.cli.convert_onnx import is_onnx, onnx_model, onnx_problems
from edgefl.cli.convert_torch import torch_model, torch_problems
from edgefl.cli.experiment_arguments import help_of
from edgefl.cli.size_arguments import extents
from edgefl.cli.working import note, working
from edgefl.errors import GraphError, RequestError
from edgefl.experiment.user_code import HELP
from edgefl.models.graph import Model, model_files
from edgefl.models.neurons.trained_part import head_hint, with_trained
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model to convert, and the file that it is written to."""
    parser.add_argument(
        "factory",
        metavar="MODULE:FACTORY",
        help=f"{HELP}. An ONNX file is named by FILE.onnx, and a model of Hugging Face by its directory",
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
        help="file for the model, whose name ends in .safetensors. --explain writes no file",
    )
    parser.add_argument("--train", default="", metavar="PATTERNS", help=help_of("train"))
    parser.add_argument(
        "--explain",
        action="store_true",
        help="list every operation of the model that edgefl cannot take, and write no file",
    )


def run(options: argparse.Namespace) -> int:
    """Convert the model, write the file, and say what the file has. Print the refused operations with --explain."""
    if options.explain:
        return _explain(options)
    if options.output is None:
        raise RequestError("convert without -o; expected -o FILE.safetensors, the file for the model, or --explain")
    if options.output.suffix != ".safetensors":
        raise RequestError(f"{options.output}; expected a file that ends in .safetensors")
    check_writable(options.output)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        with working(f"{'reading' if is_onnx(options.factory) else 'importing'} and converting {options.factory}"):
            model, seconds = _model(options)
    try:
        model = model._replace(graph=with_trained(model.graph, options.train))
    except GraphError as error:
        raise RequestError(f"{options.factory}: {error}") from None
    for warning in said:
        print(f"edgefl convert: {warning.message}", file=sys.stderr)
    if hint := head_hint(model.graph, options.train):
        print(f"edgefl convert: {hint}", file=sys.stderr)
    model_files.save(options.output, model)
    scalars = sum(value.size for value in model.params.values())
    if options.json:
        shapes = {"input_shape": model.graph.input_shape, "output_shape": model.graph.output_shape}
        counts = {"operations": len(model.graph.nodes), "parameters": scalars}
        print(json.dumps({"file": str(options.output), **counts, **shapes, **seconds}))
    else:
        note(f"{options.output}: {len(model.graph.nodes)} operations, {scalars} parameters, {_took(seconds)}")
    return 0


def _model(options: argparse.Namespace) -> tuple[Model, dict[str, float]]:
    """Return the model, and the seconds that its conversion took."""
    if not is_onnx(options.factory):
        return torch_model(options)
    began = time.perf_counter()
    model = onnx_model(options)
    return model, {"seconds": time.perf_counter() - began}


def _took(seconds: dict[str, float]) -> str:
    exported = seconds.get("export_seconds", 0)
    words = f"converted in {seconds['seconds']:.1f} s"
    return f"{words}, of which torch.export took {exported:.1f} s" if exported else words


def _explain(options: argparse.Namespace) -> int:
    """Print every operation that edgefl cannot take. Return 0 if the model is taken, and 1 otherwise."""
    problems_of = onnx_problems if is_onnx(options.factory) else torch_problems
    with warnings.catch_warnings(), working(f"reading {options.factory}"):
        warnings.simplefilter("ignore", UserWarning)
        refused = problems_of(options)
    if options.json:
        print(json.dumps({"file": options.factory, "refused": refused}))
    else:
        print("\n".join(refused) or f"{options.factory}: edgefl takes every operation")
    return int(bool(refused))
