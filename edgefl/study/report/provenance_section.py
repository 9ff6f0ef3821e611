"""The section of provenance: who made the runs, on which data, and who wrote the report."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from edgefl.experiment.data_record import DataRecord
from edgefl.study.report import html_parts
from edgefl.study.report.reported_run import ReportedRun
from edgefl.study.result_table import new_result_table
from edgefl.system.build_id import build

NOT_KEPT = "not kept, as the run was made by an older edgefl"


def provenance_section(runs: Sequence[ReportedRun]) -> str:
    """Return a table of each run, and a line about the program that wrote the report."""
    parts = [part for run in runs for part in _of_run(run, len(runs) > 1)]
    return html_parts.section("provenance", "Provenance", [*parts, html_parts.paragraph(_writer())])


def _of_run(run: ReportedRun, has_name: bool) -> Iterator[str]:
    if has_name:
        yield html_parts.heading(run.name)
    yield html_parts.table(
        new_result_table("Where the run comes from", ("what", "value"), _rows(run), left=2), is_sortable=False
    )
    yield html_parts.listed(run.notes)


def _rows(run: ReportedRun) -> Iterator[tuple[str, str]]:
    yield "directory", str(run.directory)
    for made in run.provenances:
        yield "made by", made
    for made, count in Counter(made for each in run.devices.values() for made in each).items():
        yield f"{count} device{'s' if count > 1 else ''}", made
    for record in run.data:
        yield "trained on", _data(record)
        yield "SHA-256 of the data", record.sha256
    if not run.data:
        yield "SHA-256 of the data", "of the devices, not of the server" if run.is_served else NOT_KEPT


def _data(record: DataRecord) -> str:
    size = f"{record.samples} samples of shape {list(record.shape)}"
    if record.counts is None:
        return size
    training, validation, testing = record.counts
    return f"{size}: {training} for training, {validation} for validation, {testing} for testing"


def _writer() -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    machine = f"{platform.system()} on {platform.machine()}"
    return (
        f"This report was written by edgefl {build()} with Python {python} and numpy {np.__version__} under {machine}."
    )
