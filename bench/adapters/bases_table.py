"""The tables of bases in fewer bits, made of the rows of the part bases alone. A difference is between two bases of one
seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from edgefl.study.paired_differences import PairedDifference

Row = Mapping[str, Any]
PLAIN = "float32"
WHEN = ("before", "after")


class Measure(NamedTuple):
    """A score as a table has it.

    name   heading of its column
    value  function that makes it of a score in the record
    digits decimals of a score, and of a difference
    unit   unit of a score
    """

    name: str
    value: Callable[[Mapping[str, float]], float]
    digits: tuple[int, int]
    unit: str = ""


MEASURES = {
    "shakespeare": Measure("perplexity", lambda score: math.exp(score["loss"]), (3, 4)),
    "emnist": Measure("accuracy", lambda score: 100 * score["accuracy"], (2, 2), " %"),
}


def tables(rows: Iterable[Row]) -> dict[str, str]:
    """Return the table of each task that the record has."""
    rows = [row for row in rows if row["part"] == "bases"]
    return {task: _table(task, [row for row in rows if row["task"] == task]) for task in _names(rows, "task")}


def differences(rows: Iterable[Row], base: str, when: str) -> list[float]:
    """Return a base's scores less those of float32, seed by seed. The rows are of one task.

    Raises  ValueError unless both bases have the same seeds
    """
    first, second = scores(rows, base, when), scores(rows, PLAIN, when)
    if first.keys() != second.keys():
        raise ValueError(f"{base} has the seeds {sorted(first)}; expected those of {PLAIN}, {sorted(second)}")
    return [first[seed] - second[seed] for seed in sorted(first)]


def scores(rows: Iterable[Row], base: str, when: str) -> dict[int, float]:
    """Return the scores of a base by seed, in the unit of the table."""
    return {row["seed"]: MEASURES[row["task"]].value(row[when]) for row in rows if row.get("base") == base}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean of differences, and the ends of its 95 % interval by Student's t."""
    found = PairedDifference.of(values, [0.0] * len(values))
    assert found.mean is not None and found.low is not None and found.high is not None
    return found.mean, found.low, found.high


def _table(task: str, rows: list[Row]) -> str:
    measure, seeds = MEASURES[task], sorted({row["seed"] for row in rows if "base" in row})
    seconds = next((row["seconds"] for row in rows if "seconds" in row), {})
    headings = ["base", "held", "step", measure.name, *(f"seed {seed}" for seed in seeds), "mean", "95 % interval"]
    lines = [_line(headings), _line(["---"] * len(headings))]
    for when in WHEN:
        lines += [_line(_cells(rows, base, when, seconds)) for base in _names(rows, "base")]
    return "\n".join(lines)


def _cells(rows: list[Row], base: str, when: str, seconds: Mapping[str, float]) -> list[str]:
    mine = [row for row in rows if row.get("base") == base]
    measure = MEASURES[mine[0]["task"]]
    score, change = measure.digits
    held = f"{(mine[0]['held'] - mine[0]['adapters']) / 1e6:.2f} MB"
    spent = f"{1000 * seconds[base]:.1f} ms" if base in seconds else ""
    mean = f"{fmean(scores(rows, base, when).values()):.{score}f}{measure.unit}"
    cells = [f"{base}, {when}", held, spent, mean]
    if base == PLAIN:
        return cells + [""] * (len(mine) + 2)
    found = differences(rows, base, when)
    middle, low, high = (f"{value:+.{change}f}" for value in interval(found))
    return [*cells, *(f"{value:+.{change}f}" for value in found), middle, f"{low} to {high}"]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _names(rows: Iterable[Row], key: str) -> list[str]:
    """Return the values of a key, in the order of the record."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))
