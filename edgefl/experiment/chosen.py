"""The settings that somebody gave, completed by the defaults of their data set. Not how they were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgefl.experiment.presets import defaults
from edgefl.experiment.settings import Experiment

RUNS = "edgefl-runs"


def with_defaults(given: Mapping[str, Any], of_data: Mapping[str, Any] | None = None) -> Experiment:
    """The settings that were given, the data set's for the rest, and by default no more clients a round than there are.

    of_data  what the data set asks for; None: what its name does
    A number that was given is never lowered: Experiment refuses it.
    """
    of_data = defaults(given.get("data", Experiment.data)) if of_data is None else of_data
    settings = {**asdict(Experiment()), **of_data, **given}
    if "per_round" not in given:
        settings["per_round"] = min(settings["per_round"], settings["clients"])
    return Experiment(**settings)


def new_directory(name: str) -> Path:
    """A directory of a run that does not exist yet: the next number and this name under edgefl-runs."""
    numbers = [int(path.name.split("-")[0]) for path in Path(RUNS).glob("[0-9][0-9][0-9]-*")]
    return Path(RUNS) / f"{max(numbers, default=0) + 1:03d}-{name}"
