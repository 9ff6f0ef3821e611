"""`edgefl export` writes the trained model of a run, or of a device's directory, into a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgefl.cli.working import note, working
from edgefl.errors import DataError, RequestError, RunError
from edgefl.study.export.formats import FORMATS, check_format, write
from edgefl.study.export.trained_models import ModelSource, find
from edgefl.system.durable_files import check_writable

LISTED = 10  # names of classes that are said of a model with an output for each class of the data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model to export, and the file that it is written to."""
    parser.add_argument(
        "source", type=Path, metavar="RUN|STATE", help="directory of a run, or the directory --state of a device"
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help=f"file for the model, whose name ends in {', '.join(FORMATS)}"
    )
    parser.add_argument(
        "--client",
        type=int,
        metavar="K",
        help="id of the client whose own model is exported (default: the model of all clients)",
    )
    parser.add_argument(
        "--method", metavar="NAME", help="method whose model is exported. A run of several methods needs the option."
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed whose model is exported (default: the first seed of the run)"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="RUN",
        help="directory of the served run. STATE needs it for a method whose devices keep only a part of the model.",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the files of the run's data set")


def run(options: argparse.Namespace) -> int:
    """Check the format, find the model, write the file and say what the file has."""
    try:
        check_format(options.file)
    except ValueError as error:
        raise RequestError(str(error)) from error
    check_writable(options.file)
    if not options.source.is_dir():
        raise RequestError(f"{options.source}: no such folder; expected the directory of a run or of a device")
    asked = options.client, options.method, options.data_dir, options.seed, options.run
    try:
        with working(f"reading the model of {options.source}"):
            found = find(ModelSource(options.source, *asked))
    except (DataError, RunError) as error:
        raise RequestError(str(error)) from error
    with working(f"writing {options.file}"):
        write(options.file, found.model, found.classes, found.class_names)
    if options.json:
        answer = {"file": options.file, "model": found.what, "classes": found.classes, "class_names": found.class_names}
        print(json.dumps(answer, default=str))
        return 0
    called = found.class_names or found.classes or ()
    is_said = found.classes is not None or 0 < len(called) <= LISTED
    outputs = f"; its outputs are the classes {', '.join(map(str, called))}" if is_said else ""
    note(f"{options.file}: {found.what}{outputs}")
    return 0
