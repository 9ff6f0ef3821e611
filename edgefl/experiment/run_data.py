"""The data of an experiment: a data set's files, or arrays that a run keeps, and the default partition of arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.array_data import KEPT, OwnData, read_own
from edgefl.experiment.data.catalog import NAMES, load
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.label_meaning import meant
from edgefl.experiment.data.standardisation import standardised
from edgefl.experiment.settings import Experiment
from edgefl.learning.losses import Loss
from edgefl.learning.targets import default_loss

SAMPLES_OF_A_CLIENT, MOST_CLIENTS = 50, 20  # defaults for data without groups


def data_of(
    experiment: Experiment, data_dir: str | os.PathLike[str] | None = None, own: OwnData | None = None
) -> DataSet:
    """Return the data set that the clients' samples are taken from, without the groups that are too small.
    data/label_meaning.py decides what the targets of a user's own data mean.

    own     the data that the settings name by their content. None: the settings name a data set or a file
    Raises  DataError if the data cannot be had, or have no samples.
    """
    data = load(experiment.data, data_dir, reading=experiment.how_to_read()) if own is None else own.data
    check_samples(data)
    if own is not None or experiment.data not in NAMES:
        data = meant(data, Loss.parse(experiment.loss) if experiment.loss else None)
    data = data.without_small_groups(experiment.fewest) if experiment.fewest else data
    data = data.pooled() if experiment.pool else data
    return standardised(data, _is_regression(experiment, data)) if experiment.standardise else data


def _is_regression(experiment: Experiment, data: DataSet) -> bool:
    """Return whether numbers are learnt, whose units a standardisation may change."""
    loss = Loss.parse(experiment.loss) if experiment.loss else default_loss(data.y)
    return not loss.has_labels and not loss.decisions(1)


def check_samples(data: DataSet) -> None:
    """Raise DataError if there is no sample to train on, or if a test part has no samples."""
    if not len(data):
        raise DataError(f"data={data.name} has 0 samples; expected samples in x and y")
    if data.x_test is not None and not len(data.x_test):
        expected = "expected test samples, or no x_test and y_test: then each client tests on a part of its own samples"
        raise DataError(f"data={data.name}: x_test has 0 samples; {expected}")


def groups_in(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> int:
    """Return the number of groups in an experiment's data, which is the number of clients if every group is a client.
    Raises DataError if there are no groups.
    """
    data = data_of(experiment, data_dir)
    if data.groups is None or not (count := len(data.group_sizes()[0])):
        raise DataError(
            f"clients=all with data={data.name}, which has no groups; expected a column of groups (--group NAME)"
        )
    return count


def own_of_run(run: Path | None, experiment: Experiment) -> OwnData | None:
    """Return the arrays that the run keeps, or None if its settings name a data set or a file."""
    return (
        None if run is None or not KEPT.fullmatch(experiment.data) else read_own(run / experiment.data, experiment.axes)
    )


def data_of_run(run: Path, experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Return the data that are partitioned among the clients of the run in this directory. Raises RunError or DataError
    if the data cannot be had.
    """
    return data_of(experiment, data_dir, own_of_run(run, experiment))


def say_notes(name: str, notes: Iterable[str], file: TextIO) -> None:
    """Write one line for each note on the data of that name: how they were understood, and which values changed."""
    for note in notes:
        print(f"{name}: {note}", file=file)


def settings_for(data: DataSet, held_out: int = 0) -> dict[str, Any]:
    """Return the default partition of these data. Every group is a client, or one of `held_out` more that never take
    part. Data without groups are partitioned by Dirichlet's draw among 2 to 20 clients, with 50 samples each if
    possible. Values, which have no classes, are partitioned evenly.
    """
    if data.groups is not None:
        clients = len(np.unique(data.groups[data.groups >= 0])) - held_out
        return {"partition": "group", "clients": clients, "per_round": min(clients, 10)}
    clients = min(max(len(data) // SAMPLES_OF_A_CLIENT, 2), MOST_CLIENTS)
    partition = Experiment.partition if data.has_classes else "iid"
    return {"partition": partition, "clients": clients, "per_round": min(clients, 10)}
