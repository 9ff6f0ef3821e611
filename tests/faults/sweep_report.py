"""The part `sweep` of `python -m tests faults`: which faults run, and their table. sweep.py carries out a run."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import machine
from tests.faults.steps import Kind
from tests.faults.sweep import Row, Side, Sweep, faults

SIDES: tuple[Side, ...] = ("server", "device")
KINDS: tuple[Kind, ...] = ("killed before", "killed after", "disk full from")


def sweep(root: Path, options: argparse.Namespace) -> bool:
    """Carry out the runs that are not in the file yet."""
    root.mkdir()
    done = _read(options.out)
    cases = Sweep(root)
    steps = cases.steps()
    kept = {row.key for row in done}
    wanted = [
        (side, kind, step)
        for side in options.side or SIDES
        for kind, step in list(faults(steps[side], options.every_write))[:: options.stride]
        if kind in (options.kind or KINDS) and (side, kind, step) not in kept
    ]
    print(f"{len(wanted)} runs, {len(done)} done before", file=sys.stderr)
    for row in _runs(cases, wanted, options.jobs):
        done.append(row)
        line = json.dumps(asdict(row))
        if options.out is not None:
            with open(options.out, "a") as out:
                out.write(line + "\n")
        if options.json:
            print(line, flush=True)
        if row.difference is not None:
            print(f"{row.side} {row.kind} step {row.step}, {row.what}: {row.difference}", file=sys.stderr)
    if not options.json:
        print_table(done)
    return all(row.difference is None for row in done)


def _runs(cases: Sweep, wanted: list[tuple[Side, Kind, int]], jobs: int) -> Iterator[Row]:
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(_run, cases, *each) for each in wanted]):
            yield done.result()


def _run(cases: Sweep, side: Side, kind: Kind, step: int) -> Row:
    """Return the row of a run. A run that does not come to its end has a row, too."""
    try:
        return cases.run(side, kind, step)
    except RuntimeError as error:
        return Row(side, kind, step, "", 0, 0.0, str(error))


def _read(file: Path | None) -> list[Row]:
    if file is None or not file.exists():
        return []
    return [Row(**json.loads(line)) for line in file.read_text().splitlines()]


def print_table(rows: list[Row]) -> None:
    """Print a line per side, fault and kind of step: all runs, runs with the fault, runs that ended identically."""
    facts = machine.facts()
    table = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()), title_justify="left")
    for heading in ("side", "fault", "step", "runs", "struck", "identical", "lives", "median s"):
        table.add_column(heading, justify="left" if heading in ("side", "fault", "step") else "right")

    def of(row: Row) -> tuple[str, str, str]:
        return row.side, row.kind, row.what.split(" ")[0] or "(not reached)"

    for heading, group in groupby(sorted(rows, key=of), of):
        found = list(group)
        table.add_row(
            *heading,
            str(len(found)),
            str(sum(bool(row.what) for row in found)),
            str(sum(row.difference is None for row in found)),
            str(max(row.lives for row in found)),
            f"{statistics.median(row.seconds for row in found):.1f}",
        )
    console = Console()
    console.width = max(console.width, 100)
    console.print(table)
