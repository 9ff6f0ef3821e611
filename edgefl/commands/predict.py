"""`edgefl predict`: the outputs of a model file for inputs in an npy or npz file."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

import numpy as np

from edgefl.data.npz import read_inputs
from edgefl.durable import write_atomically
from edgefl.errors import DataError, RequestError
from edgefl.predictor import Predictor, load

OUTPUTS = (".npy", ".npz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model, inputs, and what to do with the outputs."""
    parser.add_argument("model", type=Path, metavar="FILE", help="as convert and export write it, .safetensors")
    parser.add_argument(
        "inputs",
        type=Path,
        metavar="INPUT",
        help=".npy of float32 [N, ...], or .npz with x, and scale and shift",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=".npy, or .npz with logits; default: as text")
    parser.add_argument("--labels", action="store_true", help="the class of the largest logit; in an .npz beside them")


def run(options: argparse.Namespace) -> int:
    """Reads, predicts, and writes the file or prints a line for each input."""
    if options.output is not None and options.output.suffix not in OUTPUTS:
        raise RequestError(f"{options.output}; expected a file that ends in {' or '.join(OUTPUTS)}")
    model = load(options.model)
    try:
        logits = model.predict(read_inputs(options.inputs))
    except DataError as error:
        raise DataError(f"{options.inputs}: {error}") from None
    if options.output is None:
        print(_text(model, logits, options.labels))
    else:
        write_atomically(options.output, _content(options.output, model, logits, options.labels))
        print(f"{options.output}: {len(logits)} predictions", file=sys.stderr)
    return 0


def _text(model: Predictor, logits: np.ndarray, labels: bool) -> str:
    """A line for each input."""
    if labels:
        return "\n".join(map(str, model.named(logits).tolist()))
    return "\n".join(" ".join(f"{value:.9g}" for value in row) for row in logits.tolist())


def _content(path: Path, model: Predictor, logits: np.ndarray, labels: bool) -> bytes:
    """Of the file: one array, or both in an .npz."""
    file = io.BytesIO()
    if path.suffix == ".npy":
        np.save(file, model.named(logits) if labels else logits)
    elif labels:
        np.savez(file, logits=logits, labels=model.named(logits))
    else:
        np.savez(file, logits=logits)
    return file.getvalue()
