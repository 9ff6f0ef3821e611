"""Handwritten letters and digits as a comparison of bases: a CNN, trained on 31 of EMNIST's 62 classes, and a
federation of 20 clients that have all classes. The file has the official test part of EMNIST alone
(shared/data/README.md).
"""

from __future__ import annotations

import numpy as np

from bench.adapters.base_task import BaseTask, Parts
from bench.language.network import DATA
from edgefl.experiment.data.catalog import load
from edgefl.learning import Samples
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, Operation, ReLU

FILE = "emnist_byclass_official_test.npz"
CLASSES, KNOWN = 62, 31
DRAWN, OWN, TEST = 30_000, 6_000, 8_000  # images of which the base sees half the classes, of the clients, of tests


def network() -> Graph:
    """Return a CNN with two convolutions and two Linear layers, of 430,000 parameters."""
    window = {"kernel_size": (2, 2), "stride": (2, 2)}
    ops: dict[str, Operation] = {
        "conv1": Conv2d(1, 32, (3, 3), padding=(1, 1)),
        "relu1": ReLU(),
        "pool1": MaxPool2d(**window),
        "conv2": Conv2d(32, 64, (3, 3), padding=(1, 1)),
        "relu2": ReLU(),
        "pool2": MaxPool2d(**window),
        "flat": Flatten(),
        "hidden": Linear(64 * 7 * 7, 128),
        "relu3": ReLU(),
        "head": Linear(128, CLASSES),
    }
    inputs = [INPUT, *ops]
    return Graph((1, 28, 28), tuple(Node(name, op, (below,)) for below, (name, op) in zip(inputs, ops.items())))


def parts(seed: int) -> Parts:
    """Return the samples of a seed, which draws the images, and the classes that the base sees."""
    data, draw = load(FILE, DATA.parent), np.random.default_rng(seed)
    assert data.x_test is not None and data.y_test is not None
    known = draw.permutation(CLASSES)[:KNOWN]
    drawn, own = np.split(draw.permutation(len(data))[: DRAWN + OWN], [DRAWN])
    base = drawn[np.isin(data.y[drawn], known)]
    scale = {"scale": data.scale, "shift": data.shift}
    clients = {"x": data.x[own], "y": data.y[own], "classes": CLASSES, **scale}
    test = Samples(data.x_test[:TEST], data.y_test[:TEST].astype(np.int32), **scale)
    return Parts(Samples(data.x[base], data.y[base].astype(np.int32), **scale), clients, test)


TASK = BaseTask(
    "emnist",
    network,
    parts,
    targets="conv2,hidden,head",
    batch=32,
    rates=(1e-3, 1e-3),
    settings={
        "clients": 20,
        "per_round": 10,
        "rounds": 20,
        "batch": 16,
        "epochs": 1,
        "lr": 0.05,
        "partition": "dirichlet:0.1",
        "train_share": 0.9,
        "validation_share": 0.0,
        "eval_every": 20,
    },
)
