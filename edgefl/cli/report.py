"""`edgefl report RUN...`: write one HTML file that compares runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.study.report import check_report_file, write_report
from edgefl.study.run import open_run

REPORT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs, and the file of the report."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="directory of a run, simulated or served, running or over"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(REPORT),
        metavar="FILE",
        help=f"file for the report; default: {REPORT}",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="directory of the files of the data set, for a run that does not keep its data",
    )


def run(options: argparse.Namespace) -> int:
    """Checks the file, reads the runs, writes the report."""
    try:
        check_report_file(options.output)
    except ValueError as error:
        raise RequestError(str(error)) from error
    if len({each.resolve() for each in options.runs}) < len(options.runs):
        raise RequestError(f"runs {', '.join(map(str, options.runs))}; expected each run once")
    runs = [open_run(each, options.data_dir) for each in options.runs]
    write_report(options.output, runs)
    print(f"report: {options.output}", file=sys.stderr)
    return 0
