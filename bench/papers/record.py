"""A finished table as one JSON file: its results, its curves, where and how long it ran.

It is enough to draw it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.papers.runs import seconds
from bench.papers.table import Lines, Run, Table, compare


def record(table: Table, metrics: Mapping[str, Lines]) -> dict[str, Any]:
    """Return everything about a table as JSON values. `metrics` has the log records of its runs by name."""

    def curve(run: Run) -> list[tuple[int, float]]:
        values = ((log_record["round"], table.curve(log_record)) for log_record in metrics[run.name])
        return [(round_, round(value, 4)) for round_, value in values if value is not None]

    return {
        "table": table.name,
        "title": table.title,
        "about": table.about,
        "machine": machine.facts(),
        "results": [asdict(compare(row, metrics)) for row in table.rows],
        "curves": {name: {label: curve(run) for label, run in panel.items()} for name, panel in table.panels.items()},
        "runs": {run.name: _about(run, metrics[run.name]) for run in table.runs()},
    }


def write(found: Mapping[str, Any], folder: Path) -> Path:
    """Write the file of a table and return its path. Points of curves and plain lists stay on one line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found['table']}.json"
    parts = (f"{json.dumps(name)}: {_spaced(value)}" for name, value in found.items())
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return path


def _spaced(value: Any) -> str:
    """Return JSON with a line per entry, so that a difference of two files shows what changed."""
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items()) + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in value) + "\n]"
    return json.dumps(value)


def _about(run: Run, log_records: Lines) -> dict[str, Any]:
    """Return a run's data, seed and time. Its directory has its other settings."""
    experiment = run.experiment
    about = {"data": experiment.data, "partition": experiment.partition, "seed": experiment.seed}
    return {**about, "rounds": log_records[-1]["round"], "seconds": round(seconds(log_records), 1)}
