"""python -m bench papers PAPER: runs the tables of a paper, prints our numbers beside its own, keeps and draws them.

The command can be repeated. It goes on where it was killed, and repeats no run that is done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.papers import (
    adapted,
    asynchronous,
    asynchronous_table,
    comparison,
    comparison_run,
    draws,
    energy,
    fair,
    fedspa,
    fedspa_pareto,
    fedspu,
    fedumf_appendix,
    newcomers,
    pflego,
    pflego_figures,
    pfllib,
    published,
    rivals,
    search_time,
    seconds,
    similarity,
    weak,
    weak_table,
)
from bench.papers.condensed import kept
from bench.papers.record import record, write
from bench.papers.runs import metrics
from bench.papers.show import print_table
from bench.papers.table import Lines, Run, Table
from edgefl.errors import DataError, EdgeflError
from edgefl.experiment.settings import processors

PAPERS = {
    "fedspa": lambda quick: [*fedspa.tables(quick), *fedspa_pareto.tables(quick)],
    "fedspu": fedspu.tables,
    "fedumf": fedumf_appendix.tables,
    "pflego": lambda quick: [*pflego.tables(quick), *pflego_figures.tables(quick)],
    "published": published.tables,
}  # by name: the tables of a paper, quick or whole, and the tables of published data
OTHERS = {
    "comparison": comparison_run.main,
    "held-out": partial(comparison_run.main, study=comparison.HELD_OUT),
    "adapted": partial(comparison_run.main, study=adapted.ADAPTED, show=adapted.print_table),
    "fair": partial(comparison_run.main, study=fair.FAIR, show=fair.print_table),
    **{
        name: partial(comparison_run.main, study=study, show=fair.print_table)
        for name, study in {**rivals.STUDIES, **draws.STUDIES}.items()
    },
    **{
        name: partial(comparison_run.main, study=study, show=asynchronous_table.print_table)
        for name, study in asynchronous.STUDIES.items()
    },
    "weak": partial(comparison_run.main, study=weak.WEAK, show=weak_table.print_table),
    "newcomers": partial(comparison_run.main, study=newcomers.NEWCOMERS, show=newcomers.print_table),
    "pfllib": pfllib.main,
    "seconds": seconds.main,
    "energy": partial(comparison_run.main, study=energy.ENERGY, show=energy.print_table),
    "similarity": similarity.main,
    "search-time": search_time.main,
}  # commands without a paper's tables, with options of their own
RUNS = Path("edgefl-runs/papers")
RESULTS = Path(__file__).with_name("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return 1 if a run could not be carried out."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in OTHERS:
        return OTHERS[given[0]](given[1:])
    options = _parser().parse_args(given)
    tables = {table.name: table for table in PAPERS[options.paper](options.quick)}
    for name in options.tables or tables:
        if name not in tables:
            _say(f"table {name!r}; expected some of {', '.join(tables)}")
            return 2
    if options.workers < 1:
        _say(f"--workers {options.workers}; expected at least 1")
        return 2
    folder = options.dir / ("quick" if options.quick else "whole")
    results = options.results or (folder if options.quick else RESULTS)
    missing = False
    try:
        for name in options.tables or tables:
            try:
                found = _carry_out(tables[name], folder, options.data_dir, results, options.workers)
            except DataError as error:
                missing = True
                _say(f"{name}: not run: no data: {error}")
                continue
            print(json.dumps(found), flush=True) if options.json else print_table(found)
    except EdgeflError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on from the last checkpoint")
        return 1
    return int(missing)


def _carry_out(table: Table, folder: Path, data_dir: Path | None, results: Path, workers: int) -> dict[str, Any]:
    """Carry out the missing runs of a table, and return its record, which is written and drawn as well."""

    def log_records(run: Run) -> Lines:
        def make() -> Lines:
            return metrics(run, folder, data_dir, workers)

        return kept(run, results, make) if table.portable else make()

    found = record(table, {run.name: log_records(run) for run in table.runs()})
    path = write(found, results)
    try:
        table.picture(found, path.with_suffix(".svg"))
    except ImportError as error:
        _say(f"no picture of {table.name}: {error}; expected pip install matplotlib")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench papers", description=__doc__)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--quick", action="store_true", help="few clients and rounds: shows that it runs, not what of")
    parser.add_argument("--tables", type=lambda text: text.split(","), help="names, separated by commas; default: all")
    parser.add_argument("--dir", type=Path, default=RUNS, help="of the runs; default: %(default)s")
    parser.add_argument("--data-dir", type=Path, help="where the data sets' files lie")
    parser.add_argument("--results", type=Path, help=f"of JSON and pictures; default: {RESULTS.name} beside the tables")
    workers = "clients trained at the same time; default: the number of processors"
    parser.add_argument("--workers", type=int, default=processors(), help=workers)
    parser.add_argument("--json", action="store_true", help="print a line of JSON per table")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
