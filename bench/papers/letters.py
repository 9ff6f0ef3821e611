"""EMNIST's letters as a federation, out of the official test split of byclass that the file has: 26 classes, upper and
lower case as one. Not the official split of letters, and less than half as many images.

As in FedSpa, 5.1, a client is tested on about a hundred images of the file's test part in the proportions of its own
labels; here on exactly TESTS, by largest remainders (ALGORITHMS 11.7). Clients may share test images.
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
    """Clients by the experiment's partition; all of a share but `validation_share` of it is for training.

    Raises  DataError if the file is not found in the directory of the data.
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
    """Without digits; classes 0 to 25."""
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
    """`count` positions in `labels`, sorted, in these proportions of classes; of a class no more than there are."""
    partitions = wanted * count / wanted.sum()
    each = np.floor(partitions).astype(int)
    rest = np.argsort(-(partitions - each), kind="stable")[: count - each.sum()]
    each[rest] += 1
    order = stream.permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:number] for label, number in enumerate(each)]))
