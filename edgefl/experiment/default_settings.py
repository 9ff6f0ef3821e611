"""The user's settings, completed by the defaults of their data set. It does not matter here how they were given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgefl.experiment.data.catalog import NAMES, groups_of_file
from edgefl.experiment.presets import begun, defaults, is_of_paper
from edgefl.experiment.run_data import groups_in
from edgefl.experiment.settings import Experiment
from edgefl.methods.method_label import Variant

RUNS = "edgefl-runs"
ALL = "all"
GROUP = "group"
OF_DATA = (
    "data", "label", "group", "time", "drop", "axes", "image_size", "missing", "fewest", "pool", "loss", "standardise",
)  # fmt: skip


def with_everybody(
    given: Mapping[str, Any],
    base: Experiment,
    data_dir: str | os.PathLike[str] | None = None,
    is_new: bool = True,
) -> dict[str, Any]:
    """Return the settings that were given, with every group of a file as a client if that was asked for. The user asks
    for it with clients=all, or by the name of the group without a word about clients. It is also the default of a new
    run if the user's own file has groups and nothing was said about clients.

    base    settings for what was not given
    is_new  whether nothing has been run yet with these settings
    Raises  DataError if there are no groups, or no data.
    """
    found = dict(given)
    if found.get("group") or (is_new and _has_groups_alone(found, data_dir)):
        found.setdefault("partition", GROUP)
        if found["partition"] == GROUP:
            found.setdefault("clients", ALL)
    if found.get("clients") == ALL:
        groups = groups_in(with_settings_of_data(found, base), data_dir)
        found["clients"] = groups - int(found.get("held_out", base.held_out))
    return found


def _has_groups_alone(given: Mapping[str, Any], data_dir: str | os.PathLike[str] | None) -> bool:
    """Return whether the data are a user's own file with groups, and neither a partition nor the number of clients is
    given. A file that is named like a published data set starts from the settings of its paper.
    """
    name = given.get("data", Experiment.data)
    if "partition" in given or "clients" in given or name in NAMES or is_of_paper(name):
        return False
    return bool(set(groups_of_file(name, data_dir)) - {given.get("label"), *given.get("drop", ())})


def with_settings_of_data(given: Mapping[str, Any], base: Experiment) -> Experiment:
    """Return `base` with the data that were given and with the given settings on how the data are read."""
    return replace(base, **{name: given[name] for name in OF_DATA if name in given})


def with_defaults(given: Mapping[str, Any], of_data: Mapping[str, Any] | None = None) -> Experiment:
    """Complete the given settings by the defaults of the data set. By default a round has at most as many clients as
    the run.

    of_data  the defaults of the data set. None: the defaults that belong to its name
    A number that was given is never lowered. Experiment refuses a number that is too large.
    """
    of_data = defaults(given.get("data", Experiment.data)) if of_data is None else of_data
    settings = {**asdict(Experiment()), **of_data, **given}
    if "per_round" not in given:
        settings["per_round"] = min(settings["per_round"], settings["clients"])
    methods = [Variant.of(label).method for label in settings["methods"]]
    settings["options"] = tuple(sorted(begun(methods, dict(settings["options"])).items()))
    return Experiment(**settings)


def new_directory(name: str) -> Path:
    """Return the path of a new directory for a run: the next number and this name under edgefl-runs."""
    numbers = [int(path.name.split("-")[0]) for path in Path(RUNS).glob("[0-9][0-9][0-9]-*")]
    return Path(RUNS) / f"{max(numbers, default=0) + 1:03d}-{name}"
