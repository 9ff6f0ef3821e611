"""`edgefl memory --plan`: the memory of a step beside its work, if parts of the forward pass are computed again.

learning/memory/plans.py finds the plans. This file prints the plans as a table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl.cli.memory_picture import draw_plans
from edgefl.cli.memory_table import size
from edgefl.cli.working import working
from edgefl.errors import MemoryLimitError
from edgefl.learning.memory import Footprint, TrainingConfiguration
from edgefl.learning.memory.plans import PlannedFootprint, frontier
from edgefl.learning.memory.ways import TrainingWay, ways
from edgefl.study.memory_meter import measure
from edgefl.study.picture import check_picture

HEADINGS = ("held", "arena", "segments", "work")
NOTES = (
    "held: parameters, arena, states, id lists and packing memory, by the account exact",
    "segments: parts of the forward pass that are computed again",
    "work: multiply-accumulates, and values read and written, where 1 is the step that computes nothing again",
    "A learner whose limit lies between two rows takes a plan that fits, with the bits of the first row.",
)
WAY_NOTES = (
    "neurons: share of active neurons; saved: number format of values that wait for the backward pass",
    "segments: parts of the forward pass that are computed again, which a learner with this limit does by itself",
    "micro_batch and saved are settings of a method, such as fedavg:micro_batch=4, and change results",
)
MEASURED = "learner and peak: what a learner with this limit held, and its process at most"


def answer(training: TrainingConfiguration, keeps: Sequence[float], options: argparse.Namespace) -> int:
    """Print the plans of a step, or write them as JSON. Return the exit code.

    Raises  ValueError for several shares without --fit, with --board or --tensors, or for a method whose round has
            several kinds of steps
    """
    if given := [f"--{name}" for name in ("board", "tensors") if getattr(options, name)]:
        raise ValueError(f"--plan with {given[0]}; expected one of them")
    if options.fit is not None:
        return _answer_ways(training, keeps, options)
    if len(keeps) > 1:
        raise ValueError(f"--plan with {len(keeps)} shares; expected one share, such as --keep .5")
    if options.plot is not None:
        check_picture(options.plot)
    training = replace(training, keep=keeps[0])
    with working("looking for plans"):
        found = frontier(training)
    measured: list[list[Footprint]] = []
    if options.measure:
        with working("measuring", len(found)) as at:
            for each in found:
                measured.append(measure(training, ("learner", "peak"), each.footprint.total))
                at(len(measured))
    if options.json:
        print(json.dumps(_as_json(training, found, measured)))
    else:
        _print(training, found, measured)
    if options.plot is not None:
        draw_plans(options.plot, training, found)
    return 0


def _answer_ways(training: TrainingConfiguration, keeps: Sequence[float], options: argparse.Namespace) -> int:
    """Print the first way to train within --fit, and the ways that were tried before it. Return the exit code.

    Raises  ValueError with --measure or --plot, MemoryLimitError if nothing fits.
    """
    if options.measure or options.plot is not None:
        raise ValueError("--plan --fit with --measure or --plot; expected neither")
    with working("looking for a way to train"):
        found = ways(training, options.fit, keeps)
    if options.json:
        rows = [{**each._asdict(), "footprint": each.footprint.to_json()} for each in found]
        print(json.dumps({"model": training.model, "limit_bytes": options.fit, "ways": rows}))
    else:
        _print_ways(training, options.fit, found)
    if not found[-1].fits:
        least = min(each.footprint.total for each in found)
        raise MemoryLimitError(f"nothing fits {options.fit} bytes; the least by the account exact is {least}")
    return 0


def _print_ways(training: TrainingConfiguration, limit: int, found: Sequence[TrainingWay]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("neurons", "micro_batch", "saved", "segments", "held", "fits"):
        table.add_column(heading, justify="right")
    for each in found:
        whole = str(each.micro_batch) if each.micro_batch else f"all {training.batch}"
        held = size(each.footprint.total)
        table.add_row(f"{each.keep:g}", whole, each.saved, str(each.segments), held, "yes" if each.fits else "no")
    console = Console() if sys.stdout.isatty() else Console(width=140)
    title = f"{training.model}, batch {training.batch}, method {training.method}: ways to train within {size(limit)}"
    console.print(title, soft_wrap=True, highlight=False)
    console.print(table)
    for note in WAY_NOTES:
        console.print(note, soft_wrap=True, highlight=False)


def _as_json(
    training: TrainingConfiguration, found: Sequence[PlannedFootprint], measured: Sequence[Sequence[Footprint]]
) -> dict[str, Any]:
    rows = [
        {
            "held": each.footprint.total,
            "parts": dict(each.footprint.parts),
            "segments": each.segments,
            "work": each.work,
        }
        for each in found
    ]
    for row, footprints in zip(rows, measured, strict=False):
        row["measured"] = {each.account: each.total for each in footprints}
    return {"model": training.model, "method": training.method, "batch": training.batch, "plans": rows}


def _print(
    training: TrainingConfiguration, found: Sequence[PlannedFootprint], measured: Sequence[Sequence[Footprint]]
) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    names = [each.account for each in measured[0]] if measured else []
    for heading in (*HEADINGS, *names):
        table.add_column(heading, justify="right")
    for number, each in enumerate(found):
        cells = [
            size(each.footprint.total),
            size(each.footprint.parts["arena"]),
            str(each.segments),
            f"{each.work:.2f}",
        ]
        table.add_row(*cells, *(size(one.total) for one in (measured[number] if measured else ())))
    console = Console() if sys.stdout.isatty() else Console(width=140)
    title = f"{training.model}, batch {training.batch}, method {training.method}: memory and work of a step"
    console.print(title, soft_wrap=True, highlight=False)
    console.print(table)
    for note in (*NOTES, *((MEASURED,) if names else ())):
        console.print(note, soft_wrap=True, highlight=False)
