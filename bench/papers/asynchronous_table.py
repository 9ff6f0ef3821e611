"""The tables of asynchronous.py: when each way of running reached the accuracy of the run that waits, less one point.

Each seed is compared with the run of its own that waits, at the evaluated rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.papers import asynchronous
from bench.papers.comparison_table import Known
from edgefl.methods.method_label import folder

RESULTS = Path(__file__).with_name("results")
SEEDS = 1, 2, 3
LESS = 0.01  # of the final accuracy of the run that waits


class Reached(NamedTuple):
    """A run of one seed.

    final    accuracy at the end
    seconds  virtual seconds until it reached the goal, or None if it did not
    bytes    payload bytes until then, or None
    """

    final: float
    seconds: float | None
    bytes: int | None


class Row(NamedTuple):
    """A way of running in the three seeds, with the run that waits beside it."""

    study: str
    method: str
    runs: tuple[Reached, ...]
    waits: tuple[Reached, ...]

    @property
    def time_shares(self) -> list[float | None]:
        """Return by seed the share of the waiting run's virtual seconds, or None where the goal was not reached."""
        return [_share(run.seconds, waits.seconds) for run, waits in zip(self.runs, self.waits, strict=True)]

    @property
    def byte_shares(self) -> list[float | None]:
        """Return by seed the share of the waiting run's payload bytes, or None where the goal was not reached."""
        return [_share(run.bytes, waits.bytes) for run, waits in zip(self.runs, self.waits, strict=True)]


def rows(place: str) -> Iterator[Row]:
    """Yield the rows of a place whose three seeds have records, for each study."""
    for method in asynchronous.ROWS.values():
        name = folder(method.label)
        curves = {study: [_curve(study, place, name, seed) for seed in SEEDS] for study in asynchronous.STUDIES}
        if not all(curves["waiting"]):
            continue
        goals = [curve[-1]["accuracy"] - LESS for curve in curves["waiting"]]
        found = {study: _reached(each, goals) for study, each in curves.items() if all(each)}
        yield from (Row(study, name, runs, found["waiting"]) for study, runs in found.items())


def print_table(place: str, known: Known) -> None:
    """Print a line for each way of running that has records at the place."""
    for row in rows(place):
        final = ", ".join(f"{100 * run.final:.1f}" for run in row.runs)
        shares = ", ".join(map(_words, row.time_shares)), ", ".join(map(_words, row.byte_shares))
        print(f"{place} {row.method} {row.study}: accuracy {final} %; time {shares[0]}; bytes {shares[1]}")


def _curve(study: str, place: str, method: str, seed: int) -> list[dict[str, Any]]:
    file = RESULTS / study / f"{place}-{method}-seed{seed}.json"
    return list(json.loads(file.read_text())["summary"]["curve"]) if file.exists() else []


def _reached(curves: list[list[dict[str, Any]]], goals: list[float]) -> tuple[Reached, ...]:
    found = []
    for curve, goal in zip(curves, goals, strict=True):
        point = next((each for each in curve if each["accuracy"] >= goal), None)
        spent = (None, None) if point is None else (point["virtual_seconds"], point["payload_bytes"])
        found.append(Reached(curve[-1]["accuracy"], *spent))
    return tuple(found)


def _share(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours / theirs


def _words(share: float | None) -> str:
    return "not reached" if share is None else f"{share:.2f}"
