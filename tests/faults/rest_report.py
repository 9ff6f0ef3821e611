"""The part `rest` of `python -m tests faults`: which cases run, and what is printed. The cases are in rest.py."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from bench.cluster import write_partitions
from tests.faults import rest_device, rest_table
from tests.faults.outcome import Truth
from tests.faults.rest import SERVER, Cases, Row
from tests.faults.rest_server import EXPERIMENT, server_stages
from tests.faults.row_output import put_row
from tests.faults.sweep_report import SIDES


def rest(root: Path, options: argparse.Namespace) -> bool:
    """Print every case that fails as it happens, then the table. Return True if no case failed."""
    rows: list[Row] = []
    for side in options.side or SIDES:
        for row in (_server if side == "server" else _device)(root / side, options):
            rows.append(row)
            _tell(row, options)
    if not options.json:
        rest_table.print_table(rows)
    return all(row.is_good for row in rows)


def _device(root: Path, options: argparse.Namespace) -> Iterator[Row]:
    return rest_device.rows(root, options.flips)


def _server(root: Path, options: argparse.Namespace) -> Iterator[Row]:
    write_partitions(root / "shares", EXPERIMENT)
    cases = Cases(root, EXPERIMENT, root / "shares", Truth.of(EXPERIMENT, root / "simulated"))
    stages = [(SERVER, stage) for stage in server_stages(root / "stages", root / "shares")]
    wanted = [
        (side, stage, file, damage)
        for side, stage in stages
        if stage.name in (options.stage or [stage.name])
        for file, damage in cases.of(side, stage, options.flips)
        if file in (options.file or [file])
    ][:: options.stride]
    print(f"{len(wanted)} cases", file=sys.stderr)
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(cases.run, *each) for each in wanted]):
            yield done.result()


def _tell(row: Row, options: argparse.Namespace) -> None:
    put_row(row, options)
    if not row.is_good:
        print(f"{row.side} {row.stage} {row.file} {row.damage}: {row.outcome}", file=sys.stderr, flush=True)
