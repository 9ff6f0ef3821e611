"""`edgefl lora` adds low-rank adapters to a model file, merges them, and exchanges them with the package peft."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from edgefl.errors import GraphError, RequestError
from edgefl.models import Model, adapters_of, add_adapters, dequantize, merge_adapters, quantize_frozen
from edgefl.models.adapters.peft_files import load_adapter, save_adapter
from edgefl.models.graph import model_files
from edgefl.models.graph.quantized_array import PRECISIONS
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, what is done with it, and the settings of new adapters."""
    parser.add_argument("model", type=Path, metavar="FILE", help="file of a model that `edgefl convert` wrote")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file for the model, whose name ends in .safetensors"
    )
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--merge", action="store_true", help="add the adapters of FILE to its weights")
    does.add_argument("--save", type=Path, metavar="DIR", help="write the adapters of FILE as the package peft does")
    does.add_argument("--load", type=Path, metavar="DIR", help="add the adapters that the package peft wrote into DIR")
    parser.add_argument(
        "--quantize",
        choices=PRECISIONS,
        help="hold the frozen weights in bfloat16 (half of the bytes) or in int8 (a quarter). A FILE that has adapters "
        "keeps them and gets no new ones",
    )
    new = parser.add_argument_group("new adapters", "without --merge, --save and --load")
    new.add_argument("--rank", type=int, metavar="R", help="number of values between the factors A and B (default: 8)")
    new.add_argument("--alpha", type=float, metavar="A", help="B A counts A / R times (default: twice the rank)")
    new.add_argument(
        "--targets",
        metavar="NAME,...",
        help="names of layers, the last parts of names, or patterns of them with * and ? (default: all layers that can "
        "have adapters)",
    )
    new.add_argument(
        "--train",
        default="",
        metavar="PATTERNS",
        help="parameters that are trained beside the adapters, by patterns as `edgefl convert --train` takes them",
    )
    new.add_argument("--seed", type=int, metavar="N", help="seed of the initial values (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Read the model, do what is asked, and say what was written."""
    _check(options)
    try:
        model = model_files.load(options.model)
        if options.save is not None:
            save_adapter(model, options.save, str(options.model))
            return _said(options, model, options.save)
        made = _made(options, model)
    except GraphError as error:
        raise RequestError(f"{options.model}: {error}") from None
    except FileNotFoundError:
        raise RequestError(f"{options.model}: no such file; expected a model that `edgefl convert` wrote") from None
    model_files.save(options.output, made)
    return _said(options, made, options.output)


def _check(options: argparse.Namespace) -> None:
    """Raise RequestError for an output that is missing or strange, and for settings that would have no effect."""
    is_new = not options.merge and options.save is None and options.load is None
    given = [name for name in ("rank", "alpha", "targets", "train", "seed") if getattr(options, name) not in (None, "")]
    if given and not is_new:
        raise RequestError(f"--{given[0]} without new adapters; expected no --merge, --save or --load with it")
    if options.quantize is not None and (options.merge or options.save is not None):
        raise RequestError("--quantize with --merge or --save; expected a model whose weights stay frozen")
    if (options.output is None) != (options.save is not None):
        raise RequestError("expected -o FILE.safetensors for the model, or --save DIR for the adapters alone")
    if options.output is not None:
        if options.output.suffix != ".safetensors":
            raise RequestError(f"{options.output}; expected a file that ends in .safetensors")
        check_writable(options.output)


def _made(options: argparse.Namespace, model: Model) -> Model:
    if options.merge:
        return merge_adapters(dequantize(model))
    made = _with_adapters(options, model)
    return made if options.quantize is None else quantize_frozen(dequantize(made), options.quantize)


def _with_adapters(options: argparse.Namespace, model: Model) -> Model:
    if options.load is not None:
        return load_adapter(model, options.load)
    if options.quantize is not None and adapters_of(model.graph):
        return model
    new: dict[str, Any] = {"rank": options.rank, "targets": options.targets, "seed": options.seed}
    given = {name: value for name, value in new.items() if value is not None}
    return add_adapters(model, alpha=options.alpha, train=options.train, **given)


def _said(options: argparse.Namespace, model: Model, written: Path) -> int:
    adapters, infos = adapters_of(model.graph), model.graph.parameters()
    trained = sum(value.size for name, value in model.params.items() if infos[name].kind != "frozen")
    every = sum(value.size for value in model.params.values())
    if options.json:
        listed = [{"module": each.module, "rank": each.rank, "scale": each.scale} for each in adapters]
        print(json.dumps({"file": str(written), "adapters": listed, "trained": trained, "parameters": every}))
    else:
        print(f"{written}: {len(adapters)} adapters; {trained:,} of {every:,} values are trained")
    return 0
