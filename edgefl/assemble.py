"""From an experiment's settings to its federation: load the data, deal them out to the clients, choose the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from edgefl import models, partition, rng
from edgefl.algorithms import Algorithm, FedSPU
from edgefl.data import DataSet, load
from edgefl.experiment import Experiment
from edgefl.federation import Federation, split
from edgefl.learners import Samples
from edgefl.partition import Indices

PARTITIONS = (
    "iid, dirichlet:ALPHA, dirichlet:ALPHA:SIGMA, lognormal:SIGMA, dirichlet-classes:ALPHA, shards:BLOCKS, "
    "classes:K or group"
)
SCHEMES: dict[str, tuple[Callable[..., list[Indices]], tuple[type, ...]]] = {  # and the types of their parameters
    "lognormal": (partition.lognormal, (float,)),
    "dirichlet": (partition.dirichlet, (float, float)),
    "dirichlet-classes": (partition.dirichlet_classes, (float,)),
    "shards": (partition.shards, (int,)),
    "classes": (partition.few_classes, (int,)),
}
MODEL_OF_SHAPE = {
    (1, 8, 8): "digits_cnn",
    (1, 28, 28): "fedspu_emnist",
    (1, 32, 32): "fedspu_speech",
    (3, 32, 32): "fedspu_cifar",
}


def assemble(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> Federation:
    """The federation of an experiment; a function of its settings and the data alone.

    Raises  DataError if the data cannot be had or a client gets too little, ValueError for a setting that does not fit.
    """
    data = load(experiment.data, data_dir)
    data = data.pooled() if experiment.pool else data
    shares = deal(data, experiment.partition, experiment.clients, experiment.seed)
    graph = models.build(_model(experiment, data), data.input_shape, data.classes)
    common = None
    if data.x_test is not None and data.y_test is not None:
        common = Samples(data.x_test, data.y_test, data.scale, data.shift)
    parts = experiment.train_share, experiment.validation_share
    clients = tuple(split(share, experiment.seed, client, *parts) for client, share in enumerate(shares))
    return Federation(graph, Samples(data.x, data.y, data.scale, data.shift), clients, experiment.seed, common)


def deal(data: DataSet, how: str, clients: int, seed: int) -> list[Indices]:
    """Every client's examples under a partition named as on the command line. Raises ValueError for another name."""
    stream = rng.stream(seed, rng.PARTITION)
    if how == "iid":
        return partition.iid(data.y, clients, stream)
    if how == "group":
        if data.groups is None:
            raise ValueError(f"partition=group with data={data.name}, which has no groups; expected {PARTITIONS}")
        return partition.by_group(data.groups, clients, stream)
    scheme, parameters = _scheme(how)
    return scheme(data.y, clients, stream, *parameters)


def _scheme(how: str) -> tuple[Callable[..., list[Indices]], list[Any]]:
    """The partition that "name:parameter:..." stands for, and its parameters; the second of Dirichlet may lack."""
    kind, *texts = how.split(":")
    try:
        scheme, types = SCHEMES[kind]
        if not 1 <= len(texts) <= len(types):
            raise ValueError(len(texts))
        return scheme, [parse(text) for parse, text in zip(types, texts, strict=False)]
    except (KeyError, ValueError):
        raise ValueError(f"partition={how}; expected {PARTITIONS}") from None


def check_held_out(methods: Mapping[str, Algorithm], federation: Federation) -> None:
    """Raises ValueError if a method stops early on carved samples and some client has none."""
    for name, method in methods.items():
        if isinstance(method, FedSPU) and method.es and method.es_set == "carve":
            for client, split in enumerate(federation.clients):
                if not len(split.validation):
                    raise ValueError(
                        f"{name}: client {client} has 0 validation samples beside {len(split.train)} for training; "
                        f"expected at least 1: a larger validation_share, or es_set=test"
                    )


def _model(experiment: Experiment, data: DataSet) -> str:
    if experiment.model:
        return experiment.model
    if data.input_shape not in MODEL_OF_SHAPE:
        raise ValueError(
            f"no default model for inputs of shape {data.input_shape}; expected --model {' | '.join(models.NAMES)}"
        )
    return MODEL_OF_SHAPE[data.input_shape]
