"""`python -m bench faults`: runs with faults, each compared with its simulation; 1 if any ends otherwise.

sweep     either side of a small run, struck at every step that outlives the process
deadline  rounds with a deadline, a dead and a slow device, and their replay
fashion   20 devices on Fashion-MNIST: undisturbed, and with kills and full disks on both sides
rest-device  each file of a device's state, and all of it, damaged between two starts
flips     single bits flipped on the way, in plain runs, with keys, and with TLS
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.faults import deadline, fashion, flips, rest_device, rest_table
from bench.faults.steps import Kind
from bench.faults.sweep import Row, Side, Sweep, faults

WHAT = ("sweep", "deadline", "fashion", "flips", "rest-device")
SIDES: tuple[Side, ...] = ("server", "device")
KINDS: tuple[Kind, ...] = ("killed before", "killed after", "disk full from")


def main(arguments: list[str]) -> int:
    """Runs what is asked for; 1 if some run ended otherwise than its simulation."""
    options = _parser().parse_args(arguments)
    parts = {"sweep": _sweep, "deadline": _deadline, "fashion": _fashion, "flips": _flips}
    parts["rest-device"] = _rest_device
    with tempfile.TemporaryDirectory(prefix="edgefl-faults-", dir=options.dir) as directory:
        identical = [parts[what](Path(directory) / what, options) for what in options.what or WHAT]
    return int(not all(identical))


def _deadline(place: Path, options: argparse.Namespace) -> bool:
    result = deadline.run(place, options.deadline)
    print(json.dumps(asdict(result)))
    return result.identical


def _fashion(place: Path, options: argparse.Namespace) -> bool:
    identical = True
    for result in fashion.run(place, options.data_dir):
        print(json.dumps(asdict(result)), flush=True)
        identical &= result.difference is None
    return identical


def _flips(place: Path, options: argparse.Namespace) -> bool:
    identical = True
    for result in flips.runs(place, options.way or flips.WAYS, options.flips, options.seed):
        print(json.dumps(asdict(result)), flush=True)
        identical &= result.difference is None
    return identical


def _rest_device(place: Path, options: argparse.Namespace) -> bool:
    found = []
    for row in rest_device.rows(place, options.places):
        found.append(row)
        if options.json or not row.is_good:
            print(json.dumps(asdict(row)), flush=True)
    rest_table.print_table(found)
    return all(row.is_good for row in found)


def _sweep(place: Path, options: argparse.Namespace) -> bool:
    """The runs that are not in the file yet."""
    place.mkdir()
    done = _read(options.out)
    sweep = Sweep(place)
    steps = sweep.steps()
    kept = {row.key for row in done}
    wanted = [
        (side, kind, step)
        for side in options.side or SIDES
        for kind, step in list(faults(steps[side], options.every_write))[:: options.stride]
        if kind in (options.kind or KINDS) and (side, kind, step) not in kept
    ]
    print(f"{len(wanted)} runs, {len(done)} done before", file=sys.stderr)
    for row in _runs(sweep, wanted, options.jobs):
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


def _runs(sweep: Sweep, wanted: list[tuple[Side, Kind, int]], jobs: int) -> Iterator[Row]:
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(_run, sweep, *each) for each in wanted]):
            yield done.result()


def _run(sweep: Sweep, side: Side, kind: Kind, step: int) -> Row:
    """A run that does not come to its end is a row too."""
    try:
        return sweep.run(side, kind, step)
    except RuntimeError as error:
        return Row(side, kind, step, "", 0, 0.0, str(error))


def _read(file: Path | None) -> list[Row]:
    if file is None or not file.exists():
        return []
    return [Row(**json.loads(line)) for line in file.read_text().splitlines()]


def print_table(rows: list[Row]) -> None:
    """A line per side, fault and kind of step: runs, those in which it happened, those that ended identically."""
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench faults", description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="*", choices=(*WHAT, []), metavar="WHAT", help=f"{', '.join(WHAT)}; default: all")
    parser.add_argument("--dir", type=Path, help="where runs lie; default: where temporary files go")
    parser.add_argument("--data-dir", help="of fashion: where the data set's files lie")
    parser.add_argument("--deadline", type=float, default=3.0, metavar="S", help="of deadline: seconds of a round")
    parser.add_argument(
        "--places", type=int, default=20, metavar="N", help="of rest-device: bits of a file; default: 20"
    )
    bits = parser.add_argument_group("flips")
    bits.add_argument(
        "--flips", type=int, default=1000, metavar="N", help="bits in each way, in as many runs as it takes"
    )
    bits.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run; the others follow")
    bits.add_argument("--way", action="append", choices=flips.WAYS, help="default: all")
    sweep = parser.add_argument_group("sweep")
    sweep.add_argument("--side", action="append", choices=SIDES, help="default: both")
    sweep.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    sweep.add_argument("--stride", type=int, default=1, metavar="N", help="every n-th fault only")
    sweep.add_argument("--every-write", action="store_true", help="strike each write, not two of those in a row")
    sweep.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    sweep.add_argument("--out", type=Path, metavar="FILE", help="JSON lines; runs in it are not repeated")
    sweep.add_argument("--json", action="store_true", help="JSON lines in place of the table")
    return parser
