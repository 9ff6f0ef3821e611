"""EMNIST's letters as a federation, out of the official test split of byclass that the file has.

There are 26 classes, and upper and lower case are one class. This is not the official split of letters, and it has less
than half as many images. As in FedSpa, 5.1, a client is tested on about a hundred images of the file's test part in the
proportions of its own labels. Here there are exactly TESTS images, by largest remainders (ALGORITHMS 11.7). Clients may
share test images.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgefl import rng
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.partition_by_name import partition_samples
from edgefl.experiment.data.split import Split, parts
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.models.graph import architectures

FILE = "emnist_byclass_official_test.npz"
DIGITS, LETTERS, TESTS = 10, 26, 100


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return clients by the experiment's partition. All samples of a client but `validation_share` of them are for
    training.

    Raises DataError if the file is not found in the directory of the data.
    """
    data = letters(load(FILE, data_dir, fetch=False))
    assert data.y_test is not None
    partitions = partition_samples(data, experiment.partition, experiment.clients, experiment.seed)
    clients = []
    for client, client_samples in enumerate(partitions):
        stream = rng.stream(experiment.seed, rng.SPLIT, client=client)
        train, validation, _ = parts(client_samples, stream, 1.0, experiment.validation_share)
        test = alike(np.bincount(data.y[client_samples], minlength=LETTERS), data.y_test, stream) + len(data.y)
        clients.append(Split(train, validation, test.astype(np.int32)))
    pool = data.pooled()
    graph = architectures.build(experiment.model, data.input_shape, LETTERS)
    return Federation(graph, Samples(pool.x, pool.y, data.scale, data.shift), tuple(clients), experiment.seed)


def letters(data: DataSet) -> DataSet:
    """Return the data without digits, in classes 0 to 25."""
    assert data.x_test is not None
    assert data.y_test is not None
    train, test = data.y >= DIGITS, data.y_test >= DIGITS
    return replace(
        data,
        x=data.x[train],
        y=(data.y[train] - DIGITS) % LETTERS,
        x_test=data.x_test[test],
        y_test=(data.y_test[test] - DIGITS) % LETTERS,
        classes=LETTERS,
    )


def alike(wanted: np.ndarray, labels: np.ndarray, stream: rng.Stream, count: int = TESTS) -> np.ndarray:
    """Return `count` sorted positions in `labels`, in these proportions of classes, and at most all positions of a
    class.
    """
    partitions = wanted * count / wanted.sum()
    each = np.floor(partitions).astype(int)
    rest = np.argsort(-(partitions - each), kind="stable")[: count - each.sum()]
    each[rest] += 1
    order = stream.permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:number] for label, number in enumerate(each)]))
