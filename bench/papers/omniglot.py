"""Omniglot as a federation: an alphabet is a client, and its characters are the client's classes.

The setup is that of PFLEGO, 4.2, except that drawings are not rotated. Three quarters of every character's drawings are
for training. Rotated copies of one drawing would lie in both parts, as they do in the published protocol (ALGORITHMS
11.6).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgefl import rng
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.models.graph import architectures

FILE = "omniglot28.npz"
LARGEST = 55  # characters of an alphabet
TRAIN = 0.75


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return a federation of the first `clients` alphabets of the background set and then of the evaluation set.

    Raises DataError if the file is not found in the directory of the data.
    """
    data = load(FILE, data_dir, reading=Reading(group="alphabet"), fetch=False)
    assert data.x_test is not None
    assert data.y_test is not None
    assert data.groups is not None
    assert data.groups_test is not None
    y = np.concatenate([data.y, data.y_test + data.y.max() + 1]).astype(np.int32)
    alphabets = np.concatenate([data.groups, data.groups_test + data.groups.max() + 1])
    samples = Samples(np.concatenate([data.x, data.x_test]), y, data.scale, data.shift)
    clients = tuple(_split(y, alphabets, client, experiment.seed) for client in range(experiment.clients))
    return Federation(
        architectures.build(experiment.model, data.input_shape, LARGEST), samples, clients, experiment.seed
    )


def _split(y: np.ndarray, alphabets: np.ndarray, client: int, seed: int) -> Split:
    """Split an alphabet: three quarters of every character are for training, and the rest is for tests."""
    stream, train, test = rng.stream(seed, rng.SPLIT, client=client), [], []
    for character in np.unique(y[alphabets == client]):
        drawings = np.flatnonzero(y == character)
        drawings = drawings[stream.permutation(len(drawings))]
        cut = int(TRAIN * len(drawings))
        train.append(drawings[:cut])
        test.append(drawings[cut:])
    parts = (np.sort(np.concatenate(part)).astype(np.int32) for part in (train, test))
    train_part, test_part = parts
    return Split(train_part, np.zeros(0, np.int32), test_part)
