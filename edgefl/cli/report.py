"""`edgefl report RUN...` writes one HTML file that compares runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgefl.cli.working import note, working
from edgefl.errors import RequestError, RunError
from edgefl.study.report import check_report_file, write_report
from edgefl.study.run import Run, open_run

REPORT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, and the file of the report."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="directory of a run, simulated or served, running or over"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(REPORT),
        metavar="FILE",
        help=f"file for the report (default: {REPORT})",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="directory of the files of the data set, for a run that does not keep its data",
    )


def run(options: argparse.Namespace) -> int:
    """Check the file, read the runs, and write the report."""
    try:
        check_report_file(options.output)
    except ValueError as error:
        raise RequestError(str(error)) from error
    if len({each.resolve() for each in options.runs}) < len(options.runs):
        raise RequestError(f"runs {', '.join(map(str, options.runs))}; expected each run once")
    runs = _opened(options)
    with working(f"writing {options.output}"):
        write_report(options.output, runs)
    if options.json:
        print(json.dumps({"report": str(options.output), "runs": [str(each) for each in options.runs]}))
    else:
        note(f"report: {options.output}")
    return 0


def _opened(options: argparse.Namespace) -> list[Run]:
    """Return the runs. Raises RequestError for a directory that is not a run, or a run that is damaged."""
    runs: list[Run] = []
    try:
        with working("reading the runs", len(options.runs)) as at:
            for each in options.runs:
                runs.append(open_run(each, options.data_dir))
                at(len(runs))
    except RunError as error:
        raise RequestError(str(error)) from error
    return runs
