"""The metrics of a method's rounds, from the file of a simulation or from the database of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgefl.server import run_history
from edgefl.study.simulation.journal import METRICS, read_metrics


def log_records_of(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of the trial in this directory, by rounds. The list is empty before the trial begins. Raises
    RunError if the metrics are damaged.
    """
    if run_history.is_served(path):
        return run_history.metrics(path)
    return list(read_metrics(path)) if (path / METRICS).exists() else []
