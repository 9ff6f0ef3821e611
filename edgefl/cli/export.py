"""`edgefl export`: write the trained model of a run, or of a device's directory, into a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.study.export.formats import FORMATS, check_format, write
from edgefl.study.export.trained_models import ModelSource, find
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model to export, and the file that it is written to."""
    parser.add_argument(
        "source", type=Path, metavar="RUN|STATE", help="directory of a run, or the directory --state of a device"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help=f"file for the model; ends in {', '.join(FORMATS)}")
    parser.add_argument(
        "--client",
        type=int,
        metavar="K",
        help="id of the client whose own model is exported; default: the model of all clients",
    )
    parser.add_argument(
        "--method", metavar="NAME", help="method whose model is exported; needed where the run has several"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed whose model is exported; default: the first seed of the run"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="RUN",
        help="directory of the served run; only with STATE, for a method whose devices keep a part of the model only",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the files of the run's data set")


def run(options: argparse.Namespace) -> int:
    """Checks the format, finds the model, writes the file and says what it is."""
    try:
        check_format(options.file)
    except ValueError as error:
        raise RequestError(str(error)) from error
    check_writable(options.file)
    found = find(
        ModelSource(options.source, options.client, options.method, options.data_dir, options.seed, options.run)
    )
    write(options.file, found.model, found.classes)
    outputs = "" if found.classes is None else f"; its outputs are the classes {', '.join(map(str, found.classes))}"
    print(f"{options.file}: {found.what}{outputs}", file=sys.stderr)
    return 0
