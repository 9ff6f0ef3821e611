"""The record of the collection, record.jsonl: what the last runs said of each model, one line of JSON for each model.

A run changes the lines of the models that it looked at, and in them the figures that it measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("record.jsonl")
Row = dict[str, Any]
STEPS = "steps"


def read(file: Path = FILE) -> dict[str, Row]:
    """Return the lines by the names of the models."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    return {row["model"]: row for row in rows}


def taken(file: Path = FILE) -> frozenset[str]:
    """Return the names of the models that edgefl takes and trains."""
    return frozenset(name for name, row in read(file).items() if row["is_trained"])


def write(rows: Iterable[Mapping[str, Any]], order: Iterable[str], file: Path = FILE) -> None:
    """Merge the rows of a run into the record, whose lines are in the order of these names."""
    known = read(file)
    for row in rows:
        known[row["model"]] = {**known.get(row["model"], {}), **row}
    lines = [json.dumps(known[name]) for name in order if name in known]
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def of_verdicts(verdicts: Iterable[Mapping[str, Any]]) -> Row:
    """Return what a record keeps of a check: the number of comparisons, the sentences on wrong results, and the largest
    error of the outputs and of the steps, ours and that of torch in float32, in the Euclidean norm.
    """
    found = [each for each in verdicts if each["case"] != "randomness"]
    outputs = [each for each in found if each["case"] == "outputs"]
    steps = [each for each in found if each["case"] != "outputs"]
    errors = {
        name: [max(each[side] for each in rows) for side in ("ours", "torch32")]
        for name, rows in (("outputs", outputs), (STEPS, steps))
        if rows and all("ours" in each for each in rows)
    }
    wrong = [f"{each['case']}: {each['wrong']}" for each in verdicts if each["wrong"]]
    return {"compared": len(found), "wrong": wrong, "errors": errors}
