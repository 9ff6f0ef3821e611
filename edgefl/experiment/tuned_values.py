"""tuned.json: which values of an experiment's tuned options each method got, and what every value had reached. Not how
they are found (study/tuning.py).

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
Grid = tuple[tuple[str, tuple[Any, ...]], ...]  # options, and the values that each is chosen among
Choices = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # by a method's label, values by option


def combinations(grid: Grid, label: str) -> list[dict[str, Any]]:
    """What is tried of a method: every combination of the values of those options that it has and its label leaves
    open, the last option's values in turn; none if there is no such option.
    """
    method, own = Variant.of(label)
    fixed = {name for name, _ in own}
    open_ = [(name, values) for name, values in grid if name in settings_of(method) and name not in fixed]
    names = [name for name, _ in open_]
    return (
        [dict(zip(names, found, strict=True)) for found in product(*(values for _, values in open_))] if names else []
    )


def write(run: Path, record: dict[str, Any]) -> None:
    """Puts a record into the directory of a run."""
    write_atomically(run / TUNED, json.dumps(with_digest(record), indent=1).encode())


def read(run: Path) -> dict[str, Any] | None:
    """The record of a run; None if it has none (yet). Raises RunError if it is damaged."""
    try:
        return read_json(run / TUNED)
    except FileNotFoundError:
        return None


def choices(run: Path) -> Choices:
    """The values that were chosen in a run, as an experiment has them. Raises RunError if the record is damaged."""
    record = read(run)
    try:
        found = {} if record is None else {label: each["chosen"] for label, each in record["methods"].items()}
        return tuple((label, tuple(sorted(chosen.items()))) for label, chosen in found.items())
    except (AttributeError, KeyError, TypeError) as error:
        raise RunError(f"{run / TUNED} is no record of what was tuned ({error!r})") from None
