"""`python -m bench arm bodies`: instructions of single operations on aarch64 under qemu, NEON beside scalar.

The operations are those of bench/operation_calls.py: expressions, reductions, RMSNorm, rotary positions, attention,
resampling and recurrent layers. A pass is a few calls from Python on 16 examples, on one thread. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.arm.counting import FIRST, MORE, Execute, a_step
from bench.arm.emulator import CannotCountError, emulator

TITLES = ("Elementwise", "Reduce", "RMSNorm", "Rotary", "Attention", "Interpolate", "RNN", "GRU", "LSTM")
RECORD = Path(__file__).with_name("bodies.jsonl")


class Body(NamedTuple):
    """A pass of an operation, and the instructions of one such pass with NEON and with the scalar bodies."""

    name: str
    neon: float
    scalar: float

    @property
    def share(self) -> float:
        """The instructions with NEON over those without."""
        return self.neon / self.scalar


def main(arguments: Sequence[str], folder: Path) -> int:
    """Print the table, and return 1 if counting is not possible here. `folder` is what scripts/arm.sh prepare made."""
    parser = argparse.ArgumentParser(prog="python -m bench arm bodies", description=__doc__)
    parser.add_argument("--only", default=",".join(TITLES), help="titles of operations, separated by commas")
    parser.add_argument("--cpu", default="cortex-a76", help="qemu's processor; default: cortex-a76")
    parser.add_argument("--folder", type=Path, default=folder, help="of scripts/arm.sh prepare")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file that keeps the rows")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="edgefl-arm-") as name:
            found = list(counted(emulator(options.folder, options.cpu, Path(name)).counts, options.only))
    except CannotCountError as error:
        print(f"bench arm bodies: {error}", file=sys.stderr)
        return 1
    if options.record is not None:
        about = {"cpu": options.cpu, "commit": machine.facts()["commit"]}
        rows = ({**each._asdict(), **about} for each in found)
        options.record.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    _print(found)
    return 0


def counted(execute: Execute, titles: str) -> Iterator[Body]:
    """Yield each pass of the operations with these titles. Raises CannotCountError without four counts for each."""
    by_isa = {}
    for isa in ("neon", "scalar"):
        arguments = ["-m", "bench.arm.body_calls", titles, str(FIRST), str(MORE)]
        said, marks = execute(arguments, {"EDGEFL_ISA": isa})
        names = json.loads(said)
        if len(marks) != 4 * len(names):
            raise CannotCountError(f"{len(marks)} counts of {len(names)} passes; expected 4 for each")
        by_isa[isa] = {name: a_step(marks[4 * at : 4 * at + 4]) or 0.0 for at, name in enumerate(names)}
    for name, neon in by_isa["neon"].items():
        yield Body(name, neon, by_isa["scalar"][name])


def _print(found: Sequence[Body]) -> None:
    table = Table(title="a pass of 16 examples, one thread, millions of instructions", title_justify="left")
    for heading in ("operation", "NEON", "scalar", "NEON of scalar"):
        table.add_column(heading, justify="left" if heading == "operation" else "right")
    for each in found:
        table.add_row(each.name, f"{each.neon / 1e6:.3f}", f"{each.scalar / 1e6:.3f}", f"{each.share:.2f}")
    Console(width=110).print(table)
