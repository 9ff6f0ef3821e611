"""`python -m bench collection`: what happens to the models that people bring, one line of JSON for each.

A line says whether edgefl takes and trains the model, or by which sentence it refuses, and the CPU seconds of the
conversion. --export adds the seconds of torch.export alone. --check compares outputs and training steps with torch in
float64. --speed times steps beside eager torch. Models of torchvision, timm and transformers need these packages.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from bench import machine
from bench.collection import catalog, checking, conversion, record, speed
from bench.collection.entry import Entry


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a check found something wrong, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench collection", description=__doc__)
    parser.add_argument("--models", nargs="+", default=[], metavar="PART", help="parts of names; default: all models")
    parser.add_argument("--export", action="store_true", help="time torch.export alone, too")
    parser.add_argument("--check", action="store_true", help="compare outputs and steps with torch in float64")
    parser.add_argument(
        "--record", nargs="?", type=Path, const=record.FILE, metavar="FILE", help="keep what is measured"
    )
    parser.add_argument("--speed", action="store_true", help="time steps beside eager torch")
    options = parser.parse_args(arguments)
    try:
        entries = catalog.chosen(options.models)
    except ValueError as error:
        parser.error(str(error))
    torch.set_num_threads(1)
    print(json.dumps(machine.facts()), flush=True)
    rows = []
    for entry in entries:
        if package := catalog.missing(entry):
            print(json.dumps({"model": entry.name, "left_out": f"{package} is not installed"}), flush=True)
            continue
        rows.append(measured(entry, options))
        if options.record is not None:  # after each model, because a run takes an hour
            record.write(rows[-1:], [each.name for each in catalog.ALL], options.record)
    wrong = sum(bool(row.get("wrong")) for row in rows)
    print(json.dumps({"models": len(rows), "taken": sum(row["is_trained"] for row in rows), "wrong": wrong}))
    return int(wrong > 0)


def measured(entry: Entry, options: argparse.Namespace) -> record.Row:
    """Print what is measured of a model, and return its line of the record."""
    row = taking(entry) | ({"export_s": export_s(entry)} if options.export else {})
    print(json.dumps(row), flush=True)
    if row["is_trained"] and options.check:
        found = []
        for each in verdicts(entry):
            print(json.dumps(each), flush=True)
            found.append(each)
        row |= record.of_verdicts(found)
    if row["is_trained"] and options.speed:
        times = next(speed.measure(entry))
        print(json.dumps(times), flush=True)
        row |= times
    return row


def taking(entry: Entry) -> dict[str, Any]:
    """Return what happens to a model: the row of the table."""
    module, example = entry.module(), entry.example(2)
    outcome = conversion.converted(module, example)
    refusal = outcome.refusal
    if outcome.model is not None:
        refusal = conversion.untrainable(entry, outcome.model, module)
    return {
        "model": entry.name,
        "is_taken": outcome.model is not None,
        "is_trained": not refusal,
        "convert_s": round(outcome.convert_s, 2),
        "refusal": refusal,
        "warned": list(outcome.warned),
    }


def export_s(entry: Entry) -> float | None:
    """Return the seconds of torch.export, or None if torch does not export the model."""
    seconds = conversion.exported_s(entry.module(), entry.example(2))
    return None if seconds is None else round(seconds, 2)


def verdicts(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield what a check says of each kind of step."""
    try:
        for each in checking.check(entry):
            errors = {"ours": each.ours.whole, "torch32": each.theirs.whole}
            worst = {"worst": each.ours.worst, "worst32": each.theirs.worst, "at": each.ours.name}
            numbers = {key: float(f"{value:.2g}") if isinstance(value, float) else value
                       for key, value in (errors | worst).items()}  # fmt: skip
            yield {"model": entry.name, "case": each.case, **numbers, "wrong": each.wrong}
    except Exception as error:
        print(f"{entry.name}: {type(error).__name__}: {error}", file=sys.stderr)
        yield {"model": entry.name, "case": "", "wrong": f"CRASH {type(error).__name__}: {error}"}
