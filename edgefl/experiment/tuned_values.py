"""tuned.json: the values of an experiment's tuned options that each method got, and the result of every tried value.
study/tuning.py finds the values.

    {"seed": 1, "rounds": 60, "methods": {"fedspu": {"chosen": {"lr": 0.05}, "reached": [
        {"values": {"lr": 0.05}, "accuracy": 0.8, "loss": 0.7}, {"values": {"lr": 0.5}, "loss": null}]}}}
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.methods import settings_of
from edgefl.methods.method_label import Variant
from edgefl.system.durable_files import read_json, with_digest, write_atomically

TUNED = "tuned.json"
Grid = tuple[tuple[str, tuple[Any, ...]], ...]  # for each option the values that are tried
Choices = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # method's label -> option -> value


def combinations(grid: Grid, label: str) -> list[dict[str, Any]]:
    """Return what is tried for a method: every combination of the values of the options that the method has and its
    label does not set. The last option varies fastest. The list is empty if there is no such option.
    """
    method, own = Variant.of(label)
    fixed = {name for name, _ in own}
    open_ = [(name, values) for name, values in grid if name in settings_of(method) and name not in fixed]
    names = [name for name, _ in open_]
    return (
        [dict(zip(names, found, strict=True)) for found in product(*(values for _, values in open_))] if names else []
    )


def write(run: Path, record: dict[str, Any]) -> None:
    """Write a record into the directory of a run."""
    write_atomically(run / TUNED, json.dumps(with_digest(record), indent=1).encode())


def read(run: Path) -> dict[str, Any] | None:
    """Return the record of a run, or None if there is no record yet. Raises RunError if it is damaged."""
    try:
        return read_json(run / TUNED)
    except FileNotFoundError:
        return None


def choices(run: Path) -> Choices:
    """Return the values that were chosen in a run, as an experiment has them. Raises RunError for a damaged record."""
    record = read(run)
    try:
        found = {} if record is None else {label: each["chosen"] for label, each in record["methods"].items()}
        return tuple((label, tuple(sorted(chosen.items()))) for label, chosen in found.items())
    except (AttributeError, KeyError, TypeError) as error:
        raise RunError(f"{run / TUNED} is not a record of tuned values ({error!r})") from None
