"""`edgefl predict` computes the outputs of a model file for inputs in arrays, a table or images."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.cli.experiment_arguments import names
from edgefl.cli.working import note, working
from edgefl.errors import DataError, GraphError, RequestError, RunError
from edgefl.experiment.data.column_choice import AXES, Reading
from edgefl.experiment.data.model_inputs import ModelInputs, model_inputs
from edgefl.experiment.data_meaning import DataMeaning
from edgefl.experiment.training_data import trained_on
from edgefl.learning.predictor import Predictor, load
from edgefl.models.graph.class_axis import outputs_of_classes
from edgefl.system.durable_files import check_writable, write_atomically

OUTPUTS = (".npy", ".npz")
RUN_HELP = (
    "directory of the run that trained the model. The inputs are then read and scaled like the data of the run, and "
    "the columns of a table are found by their names."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the inputs, and the options of reading and of the output."""
    parser.add_argument(
        "model", type=Path, metavar="FILE", help="file of a model that `edgefl convert` or `edgefl export` wrote"
    )
    parser.add_argument(
        "inputs",
        type=Path,
        metavar="INPUT",
        help="inputs: an .npy file of float32 [N, ...], an .npz file with x and perhaps scale and shift, a table, an "
        "image, or a folder of images",
    )
    parser.add_argument(
        "--int8-activations",
        action="store_true",
        help="round the inputs of convolutions and Linear layers with int8 weights to int8, which is faster and less "
        "exact. FILE must have int8 weights",
    )
    _add_reading(parser.add_argument_group("reading of the inputs"))
    _add_output(parser.add_argument_group("outputs of the model"))


def _add_reading(parser: argparse._ArgumentGroup) -> None:
    """Add the options that say how the inputs are read."""
    parser.add_argument("--run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the files of the run's data set")
    parser.add_argument(
        "--drop",
        metavar="NAME,...",
        type=names,
        default=(),
        help="names of columns that the model does not read, separated by commas",
    )
    parser.add_argument(
        "--axes", metavar="AXES", default="", help=f"order of the axes of the array x: {', '.join(AXES)}"
    )
    parser.add_argument(
        "--image-size", type=int, default=0, metavar="N", help="width and height in pixels to which images are scaled"
    )


def _add_output(parser: argparse._ArgumentGroup) -> None:
    """Add the file of the outputs, and their form."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="file for the outputs: .npy, or .npz with logits (default: the outputs are printed)",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--decisions",
        action="store_true",
        help="print 1 for each logit above 0 and 0 for every other logit, for a model trained with the loss bce",
    )
    kind.add_argument(
        "--labels",
        action="store_true",
        help="print the class of the largest logit, by its name if the classes have names. A file gets the numbers of "
        "the classes. An .npz file gets the logits and the names as well.",
    )


def run(options: argparse.Namespace) -> int:
    """Read the inputs, predict, and write the file or print a line for each input."""
    if options.output is not None and options.output.suffix not in OUTPUTS:
        raise RequestError(f"{options.output}; expected a file that ends in {' or '.join(OUTPUTS)}")
    if options.output is not None:
        check_writable(options.output)
    try:
        with working(f"reading {options.model} and {options.inputs}"):
            model, found = _read(options)
    except (DataError, GraphError, RunError) as error:
        raise RequestError(str(error)) from error
    for line in found.notes:
        print(f"{options.inputs}: {line}", file=sys.stderr)
    try:
        with working(f"predicting for {len(found.x)} inputs"):
            logits = model.predict(found.x)
    except DataError as error:
        raise RequestError(f"{options.inputs}: {error}") from None
    answers = _answers(model, logits, options)
    if options.output is not None:
        write_atomically(options.output, _content(options.output, logits, answers))
    if options.json:
        print(json.dumps(_as_json(options.output, logits, answers)))
    elif options.output is None:
        print(_text(logits, answers))
    else:
        note(f"{options.output}: {len(logits)} predictions")
    return 0


def _read(options: argparse.Namespace) -> tuple[Predictor, ModelInputs]:
    """Return the model, and the inputs as the options or the run say."""
    for option, path in (("", options.model), ("--run ", options.run)):
        if path is not None and not path.exists():
            raise RequestError(f"{option}{path}: no such file or folder; expected one that exists")
    model = load(options.model, int8_activations=options.int8_activations)
    reading, training = Reading(drop=options.drop, axes=options.axes, size=options.image_size), None
    if options.run is not None:
        training = trained_on(options.run, options.data_dir)
        reading = _completed(reading, training.reading)
    if model.class_names is None and training is not None:  # a device's file has no names
        meaning = DataMeaning.of(training.data)
        model.class_names = meaning.names(model.classes, outputs_of_classes(model.graph))
    return model, model_inputs(options.inputs, model.graph.input_shape, reading, training)


def _as_json(file: Path | None, logits: np.ndarray, answers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the outputs as JSON values. If a file has the outputs, only its name and their number are returned."""
    if file is not None:
        return {"file": str(file), "predictions": len(logits)}
    return {"predictions": len(logits), "logits": logits.tolist(), **{k: v.tolist() for k, v in answers.items()}}


def _completed(given: Reading, of_run: Reading) -> Reading:
    """Return the given options, completed by the settings of the run."""
    return replace(
        of_run, drop=given.drop or of_run.drop, axes=given.axes or of_run.axes, size=given.size or of_run.size
    )


def _answers(model: Predictor, logits: np.ndarray, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the arrays that are asked for in addition to the logits, by their names in an .npz file."""
    if options.decisions:
        return {"decisions": (logits > 0).astype(np.int64)}
    if not options.labels:
        return {}
    names = {} if model.class_names is None else {"label_names": np.array(model.names_of(logits), str)}
    return {"labels": model.named(logits), **names}


def _text(logits: np.ndarray, answers: Mapping[str, np.ndarray]) -> str:
    """Return the text with a line for each input: its class by name, where the classes have names."""
    if answers:
        rows = list(answers.values())[-1].reshape(len(logits), -1).tolist()
        return "\n".join(" ".join(map(str, row)) for row in rows)
    return "\n".join(" ".join(f"{value:.9g}" for value in row) for row in logits.tolist())


def _content(path: Path, logits: np.ndarray, answers: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of the file: one array for .npy, or all arrays for .npz."""
    file = io.BytesIO()
    if path.suffix == ".npy":
        np.save(file, next(iter(answers.values()), logits))
    else:
        np.savez(file, logits=logits, **answers)  # type: ignore[arg-type]
    return file.getvalue()
