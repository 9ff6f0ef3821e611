"""The parts of a table of a paper: runs, and rows that compare a number of the paper with ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from bench.papers.show import draw
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.study.paired_differences import PairedDifference

Line = Mapping[str, Any]
Lines = Sequence[Line]  # the metrics of a run, a line per round, as `edgefl simulate` writes them


class Run(NamedTuple):
    """One method on one seed. The name is that of its directory, so that runs with one name are one run.

    federation  makes the experiment's, where `assemble` cannot, from the directory of the data
    """

    name: str
    experiment: Experiment
    federation: Callable[[Experiment, Path | None], Federation] = assemble


class Found(NamedTuple):
    """A value that a measure finds in the metrics of its runs. It is None if there is nothing to compare, as the detail
    says.
    """

    value: float | None
    detail: str = ""


@dataclass(frozen=True)
class Row:
    """A number of the paper and our number.

    measure  of the metrics of one seed's runs, an argument for each
    runs     for every seed the runs to measure
    paper    None where the paper has no such number
    """

    label: str
    measure: Callable[..., Found]
    runs: tuple[tuple[Run, ...], ...]
    paper: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under one title, and the curves of its picture.

    name    of its files
    about   the data, and what is not as in the paper
    panels  for each part of the picture, its runs by the names of their curves
    curve   of a line of metrics, what the picture shows of it, or None where it has no such value
    picture  draws the record into a file
    portable  whether finished runs are kept in short beside the results (condensed.py), for other machines too
    """

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]
    panels: Mapping[str, Mapping[str, Run]]
    curve: Callable[[Line], float | None]
    portable: bool = False
    picture: Callable[[Mapping[str, Any], Path], None] = draw

    def runs(self) -> list[Run]:
        """Return all runs, each once, in the order of the rows."""
        mine = [run for row in self.rows for seed in row.runs for run in seed]
        drawn = [run for panel in self.panels.values() for run in panel.values()]
        return list({run.name: run for run in (*mine, *drawn)}.values())


@dataclass(frozen=True)
class Result:
    """A row with our number: the mean over seeds. Where there are two or more, also their standard deviation and the
    ends of the mean's 95 % interval by Student's t.
    """

    label: str
    unit: str
    paper: float | None
    ours: float | None
    spread: float | None
    difference: float | None
    seeds: tuple[int, ...]
    detail: str
    interval: tuple[float, float] | None = None


def compare(row: Row, metrics: Mapping[str, Lines]) -> Result:
    """Return the result of a row from the metrics of its runs, by name. Seeds with nothing to compare are left out."""
    found = [row.measure(*(metrics[run.name] for run in runs)) for runs in row.runs]
    values = [each.value for each in found if each.value is not None]
    ours = mean(values) if values else None
    return Result(
        row.label,
        row.unit,
        row.paper,
        ours,
        stdev(values) if len(values) > 1 else None,
        None if ours is None or row.paper is None else ours - row.paper,
        tuple(runs[0].experiment.seed for runs in row.runs),
        "; ".join(each.detail for each in found if each.detail),
        _interval(values),
    )


def _interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of the mean, or None for fewer than two values."""
    found = PairedDifference.of(values, [0.0] * len(values))
    return None if found.low is None or found.high is None else (found.low, found.high)
