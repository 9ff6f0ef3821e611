"""Carrying out the runs of a table: finished runs are read, and killed runs go on from their last checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.papers.table import Lines, Run
from edgefl.experiment.run_json import open_run
from edgefl.methods.method_label import folder as folder_of
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate


def metrics(run: Run, folder: Path, data_dir: Path | None, workers: int = 1) -> Lines:
    """Return the metrics of a run whose directory is `folder`/NAME, after as many of its rounds as are still due.

    workers  clients trained at the same time, on which no result depends
    Raises  RunError if the directory holds a run with other settings, DataError if the data cannot be had.
    """
    open_run(folder / run.name, run.experiment.to_json())
    (method,) = run.experiment.methods
    journal = Journal(folder / run.name / folder_of(method))
    try:
        if not journal.committed.done:
            _say(f"{run.name}: round {max(journal.committed.round, 0)} of {run.experiment.rounds}")
            federation = run.federation(run.experiment, data_dir)
            simulate(run.experiment.algorithms()[method], federation, run.experiment.settings(workers), journal)
        return list(read_metrics(journal.path))
    finally:
        journal.close()


def seconds(log_records: Lines) -> float:
    """Return the seconds that the rounds of a run took, without its evaluations."""
    return float(sum(log_record["seconds"] for log_record in log_records))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
