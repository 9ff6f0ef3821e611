"""Figures of the benches of a served run, and their two forms: JSON lines for machines, a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from bench.machine import Facts


@dataclass(frozen=True)
class Figure:
    """One measured value. `bar` is the project's upper limit for it."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    note: str = ""


def print_json(facts: Facts, figures: Iterable[Figure]) -> None:
    """Print one line of machine facts, then one line per figure as it is measured."""
    print(json.dumps({"machine": facts}), flush=True)
    for each in figures:
        print(json.dumps(asdict(each)), flush=True)


def print_table(facts: Facts, figures: Iterable[Figure]) -> None:
    table = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()), title_justify="left")
    for heading in ("what", "value", "unit", "bar", "note"):
        table.add_column(heading, justify="right" if heading in ("value", "bar") else "left")
    for each in figures:
        table.add_row(each.what, _number(each.value), each.unit, _number(each.bar), each.note)
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
