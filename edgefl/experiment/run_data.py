"""The data of an experiment, wherever they are: a data set's files, or arrays that a run keeps; and the partition that
arrays have by default.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.array_data import KEPT, OwnData, read_own
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.settings import Experiment

SAMPLES_OF_A_CLIENT, MOST_CLIENTS = 50, 20  # where nobody says who the samples come from


def data_of(
    experiment: Experiment, data_dir: str | os.PathLike[str] | None = None, own: OwnData | None = None
) -> DataSet:
    """The data set that the clients' samples are taken from, without the groups that are too small.

    own     the data that the settings name by their content; None: the settings name a data set or a file
    Raises  DataError if the data cannot be had.
    """
    data = load(experiment.data, data_dir, reading=experiment.how_to_read()) if own is None else own.data
    data = data.without_small_groups(experiment.fewest) if experiment.fewest else data
    return data.pooled() if experiment.pool else data


def groups_in(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> int:
    """How many groups an experiment's data have: its clients, if all are to be. Raises DataError if there are none."""
    data = data_of(experiment, data_dir)
    if data.groups is None or not (count := len(data.group_sizes()[0])):
        raise DataError(f"clients=all with data={data.name}, which has no groups; expected some (--group NAME)")
    return count


def own_of_run(run: Path | None, experiment: Experiment) -> OwnData | None:
    """The arrays that the run keeps; None where its settings name a data set or a file."""
    return None if run is None or not KEPT.fullmatch(experiment.data) else read_own(run / experiment.data)


def data_of_run(run: Path, experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """What the clients of the run in this directory are partitioned from. Raises RunError or DataError if there is
    none.
    """
    return data_of(experiment, data_dir, own_of_run(run, experiment))


def settings_for(data: DataSet) -> dict[str, Any]:
    """How these are partitioned unless somebody says otherwise: every group is a client; without groups by Dirichlet's
    draw to as many as get 50 samples each, from 2 to 20; values, which have no classes, evenly.
    """
    if data.groups is not None:
        clients = len(np.unique(data.groups[data.groups >= 0]))
        return {"partition": "group", "clients": clients, "per_round": min(clients, 10)}
    clients = min(max(len(data) // SAMPLES_OF_A_CLIENT, 2), MOST_CLIENTS)
    partition = Experiment.partition if data.has_labels else "iid"
    return {"partition": partition, "clients": clients, "per_round": min(clients, 10)}
