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
from edgefl.learning.memory import Footprint, TrainingConfiguration
from edgefl.learning.memory.plans import PlannedFootprint, frontier
from edgefl.study.memory_meter import measure
from edgefl.study.picture import check_picture

HEADINGS = ("held", "arena", "segments", "work")
NOTES = (
    "held: parameters, arena, states, id lists and packing memory, by the account exact",
    "segments: parts of the forward pass that are computed again",
    "work: multiply-accumulates, and values read and written, where 1 is the step that computes nothing again",
    "A learner whose limit lies between two rows takes a plan that fits, with the bits of the first row.",
)
MEASURED = "learner and peak: what a learner with this limit held, and its process at most"


def answer(training: TrainingConfiguration, keeps: Sequence[float], options: argparse.Namespace) -> int:
    """Print the plans of a step, or write them as JSON. Return the exit code.

    Raises  ValueError for several shares, with --board, --fit or --tensors, or for a method whose round has several
            kinds of steps
    """
    if given := [f"--{name}" for name in ("board", "fit", "tensors") if getattr(options, name)]:
        raise ValueError(f"--plan with {given[0]}; expected one of them")
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
