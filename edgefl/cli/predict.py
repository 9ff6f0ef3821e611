"""`edgefl predict`: the outputs of a model file for inputs in an npy or npz file."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgefl.errors import DataError, RequestError
from edgefl.experiment.data.npz import read_inputs
from edgefl.learning.predictor import Predictor, load
from edgefl.system.durable_files import write_atomically

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
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--decisions", action="store_true", help="1 for each logit above 0, of a model trained with bce")
    kind.add_argument("--labels", action="store_true", help="the class of the largest logit; in an .npz beside them")


def run(options: argparse.Namespace) -> int:
    """Reads, predicts, and writes the file or prints a line for each input."""
    if options.output is not None and options.output.suffix not in OUTPUTS:
        raise RequestError(f"{options.output}; expected a file that ends in {' or '.join(OUTPUTS)}")
    model = load(options.model)
    try:
        logits = model.predict(read_inputs(options.inputs))
    except DataError as error:
        raise DataError(f"{options.inputs}: {error}") from None
    answers = _answers(model, logits, options)
    if options.output is None:
        print(_text(logits, answers))
    else:
        write_atomically(options.output, _content(options.output, logits, answers))
        print(f"{options.output}: {len(logits)} predictions", file=sys.stderr)
    return 0


def _answers(model: Predictor, logits: np.ndarray, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """What is asked for beside the logits, by the name that it has in an .npz."""
    if options.decisions:
        return {"decisions": (logits > 0).astype(np.int64)}
    return {"labels": model.named(logits)} if options.labels else {}


def _text(logits: np.ndarray, answers: Mapping[str, np.ndarray]) -> str:
    """A line for each input."""
    if answers:
        rows = next(iter(answers.values())).reshape(len(logits), -1).tolist()
        return "\n".join(" ".join(map(str, row)) for row in rows)
    return "\n".join(" ".join(f"{value:.9g}" for value in row) for row in logits.tolist())


def _content(path: Path, logits: np.ndarray, answers: Mapping[str, np.ndarray]) -> bytes:
    """Of the file: one array, or all in an .npz."""
    file = io.BytesIO()
    if path.suffix == ".npy":
        np.save(file, next(iter(answers.values()), logits))
    else:
        np.savez(file, logits=logits, **answers)  # type: ignore[arg-type]
    return file.getvalue()
