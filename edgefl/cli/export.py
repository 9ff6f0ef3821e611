"""`edgefl export`: takes a trained model out of a run, or out of a device's directory, as a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.study.export.formats import FORMATS, check_format, write
from edgefl.study.export.trained_models import ModelSource, find
from edgefl.system.durable_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whose model, and where it goes."""
    parser.add_argument("source", type=Path, metavar="RUN|STATE", help="directory of a run, or a device's --state")
    parser.add_argument("file", type=Path, metavar="FILE", help=f"ends in {', '.join(FORMATS)}")
    parser.add_argument("--client", type=int, metavar="K", help="the model of this client's own; default: that of all")
    parser.add_argument("--method", help="which of the methods of a simulation's run")
    parser.add_argument("--seed", type=int, help="which of the seeds of a simulation's run; default: its first")
    parser.add_argument("--run", type=Path, help="beside STATE: its server's run, where a method needs what all share")
    parser.add_argument("--data-dir", help="directory of the data set's files")


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
