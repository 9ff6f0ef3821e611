"""`edgefl predict`: compute the outputs of a model file for inputs in arrays, a table or images."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgefl.cli.experiment_arguments import names
from edgefl.errors import DataError, RequestError
from edgefl.experiment.data.column_choice import AXES, Reading
from edgefl.experiment.data.model_inputs import model_inputs
from edgefl.experiment.training_data import trained_on
from edgefl.learning.predictor import Predictor, load
from edgefl.system.durable_files import check_writable, write_atomically

OUTPUTS = (".npy", ".npz")
RUN_HELP = (
    "directory of the run that trained the model; the inputs are then read and scaled like the data of the run, and "
    "the columns of a table are found by their names"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model, inputs, and what to do with the outputs."""
    parser.add_argument(
        "model", type=Path, metavar="FILE", help="file of a model that `edgefl convert` or `edgefl export` wrote"
    )
    parser.add_argument(
        "inputs",
        type=Path,
        metavar="INPUT",
        help="an .npy file of float32 [N, ...], an .npz file with x, and scale and shift, a table, an image or a "
        "folder of images",
    )
    _add_reading(parser.add_argument_group("reading of the inputs"))
    _add_output(parser.add_argument_group("output"))


def _add_reading(parser: argparse._ArgumentGroup) -> None:
    """Adds how the inputs are read."""
    parser.add_argument("--run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the files of the run's data set")
    parser.add_argument(
        "--drop",
        metavar="NAME,...",
        type=names,
        default=(),
        help="columns of a table that the model does not get as inputs",
    )
    parser.add_argument(
        "--axes", metavar="AXES", default="", help=f"order of the axes of the array x: {', '.join(AXES)}"
    )
    parser.add_argument(
        "--image-size", type=int, default=0, metavar="N", help="width and height in pixels to which images are scaled"
    )


def _add_output(parser: argparse._ArgumentGroup) -> None:
    """Adds the file of the outputs, and their form."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="file for the outputs: .npy, or .npz with logits; default: the outputs are printed",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--decisions",
        action="store_true",
        help="print 1 for each logit above 0 and 0 for every other logit; for a model trained with the loss bce",
    )
    kind.add_argument(
        "--labels",
        action="store_true",
        help="print the class of the largest logit; an .npz file gets the logits as well",
    )


def run(options: argparse.Namespace) -> int:
    """Reads, predicts, and writes the file or prints a line for each input."""
    if options.output is not None and options.output.suffix not in OUTPUTS:
        raise RequestError(f"{options.output}; expected a file that ends in {' or '.join(OUTPUTS)}")
    if options.output is not None:
        check_writable(options.output)
    model = load(options.model)
    reading, training = Reading(drop=options.drop, axes=options.axes, size=options.image_size), None
    if options.run is not None:
        training = trained_on(options.run, options.data_dir)
        reading = _completed(reading, training.reading)
    found = model_inputs(options.inputs, model.graph.input_shape, reading, training)
    for note in found.notes:
        print(f"{options.inputs}: {note}", file=sys.stderr)
    try:
        logits = model.predict(found.x)
    except DataError as error:
        raise DataError(f"{options.inputs}: {error}") from None
    answers = _answers(model, logits, options)
    if options.output is None:
        print(_text(logits, answers))
    else:
        write_atomically(options.output, _content(options.output, logits, answers))
        print(f"{options.output}: {len(logits)} predictions", file=sys.stderr)
    return 0


def _completed(given: Reading, of_run: Reading) -> Reading:
    """The given options, completed by the settings of the run."""
    return replace(
        of_run, drop=given.drop or of_run.drop, axes=given.axes or of_run.axes, size=given.size or of_run.size
    )


def _answers(model: Predictor, logits: np.ndarray, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The arrays that are asked for beside the logits, by their names in an .npz file."""
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
    """The content of the file: one array, or all arrays of an .npz file."""
    file = io.BytesIO()
    if path.suffix == ".npy":
        np.save(file, next(iter(answers.values()), logits))
    else:
        np.savez(file, logits=logits, **answers)  # type: ignore[arg-type]
    return file.getvalue()
