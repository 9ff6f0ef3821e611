"""From an experiment's settings to its federation: load the data, deal them out to the clients, choose the model."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgefl import rng
from edgefl.errors import DataError, GraphError
from edgefl.experiment.data import partition
from edgefl.experiment.data.catalog import load, shape_of
from edgefl.experiment.data.dataset import Array, DataSet, Shape
from edgefl.experiment.data.split import Indices, Split, parts, split, split_by_time
from edgefl.experiment.federation import Federation
from edgefl.experiment.model_file import NAMED, check_fits
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.learning.losses import Loss
from edgefl.learning.targets import default_loss, with_loss
from edgefl.methods import Algorithm
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.neurons.model_spec import ModelSpec

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
MODEL_OF_SHAPE: dict[Shape, str] = {  # other shapes have models that follow them (graph/default_models.py)
    (1, 8, 8): "digits_cnn",
    (1, 28, 28): "fedspu_emnist",
    (1, 32, 32): "fedspu_speech",
    (3, 32, 32): "fedspu_cifar",
}


def assemble(
    experiment: Experiment,
    data_dir: str | os.PathLike[str] | None = None,
    model: Model | None = None,
    data: DataSet | None = None,
) -> Federation:
    """The federation of an experiment of one seed; a function of its settings, the data and the model alone.

    model   that the settings name by its content, from a file; None: they name a built-in one
    data    the experiment's, if it has been loaded (`data_of`)
    Raises  DataError if the data cannot be had or a client gets too little, ValueError for a setting that does not fit.
    """
    data = data_of(experiment, data_dir) if data is None else data
    loss = Loss.parse(experiment.loss) if experiment.loss else default_loss(data.y)
    outputs = data.classes if loss.has_labels == data.has_labels else 1
    if model is None:
        graph = _built_in(experiment, data.input_shape, outputs, data.vocabulary)
    else:
        graph = model.graph
        check_fits(graph, experiment.data, data.input_shape, outputs, loss.has_labels)
    loss.check_outputs(outputs)
    federation = _with_loss(_partitioned(experiment, data, graph), loss)
    return federation if model is None else replace(federation, weights=model.params)


def data_of(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """What the clients are partitioned from. Raises DataError if it cannot be had."""
    data = load(experiment.data, data_dir, reading=experiment.how_to_read())
    data = data.without_small_groups(experiment.fewest) if experiment.fewest else data
    return data.pooled() if experiment.pool else data


def groups_in(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> int:
    """How many groups an experiment's data have: its clients, if all are to be. Raises DataError if there are none."""
    data = data_of(experiment, data_dir)
    if data.groups is None or not (count := len(data.group_sizes()[0])):
        raise DataError(f"clients=all with data={data.name}, which has no groups; expected some (--group NAME)")
    return count


def _with_loss(federation: Federation, loss: Loss) -> Federation:
    """Its targets as the loss takes them. Raises DataError if they are none for it."""
    common = None if federation.common is None else with_loss(federation.common, loss)
    return replace(federation, data=with_loss(federation.data, loss), common=common)


def _partitioned(experiment: Experiment, data: DataSet, graph: Graph) -> Federation:
    """Every client's share, split into its parts."""
    if experiment.partition_test:
        return _with_partitioned_test(experiment, data, graph)
    partitions = partition_samples(data, experiment.partition, experiment.clients, experiment.seed)
    common = None
    if data.x_test is not None and data.y_test is not None:
        common = _samples(data, data.x_test, data.y_test)
    clients = tuple(
        _split(experiment, data, client, client_samples) for client, client_samples in enumerate(partitions)
    )
    return Federation(graph, _samples(data, data.x, data.y), clients, experiment.seed, common)


def _split(experiment: Experiment, data: DataSet, client: int, client_samples: Indices) -> Split:
    """A client's parts of its share."""
    parts, who = (experiment.train_share, experiment.validation_share), f"client {client}"
    if data.groups is not None and experiment.partition == "group":
        who = f"client {client}, group {data.name_of_group(int(data.groups[client_samples[0]]))},"
    if experiment.split != "time":
        return split(client_samples, experiment.seed, client, *parts, who)
    if data.times is None:
        raise ValueError(f"split=time with data={data.name}, which says no times; expected some (--time NAME)")
    return split_by_time(client_samples, data.times, *parts, who)


def _samples(data: DataSet, x: Array, y: Array) -> Samples:
    return Samples(x, y, data.scale, data.shift, default_loss(y))


def _with_partitioned_test(experiment: Experiment, data: DataSet, graph: Graph) -> Federation:
    """Every client trains on all of its share, and tests on its share of the published test part; both have the same
    classes, partitioned in the same way (ALGORITHMS 11.6).
    """
    kind, _, per_client = experiment.partition.partition(":")
    _check_classes(experiment.partition, data)
    if kind != "classes" or not per_client.isdecimal() or data.x_test is None or data.y_test is None:
        test = 0 if data.y_test is None else len(data.y_test)
        raise ValueError(
            f"partition_test with partition={experiment.partition} and {test} published test examples; "
            "expected classes:K and a published test part"
        )
    stream = rng.stream(experiment.seed, rng.PARTITION)
    lists = partition.class_lists(data.classes, experiment.clients, stream, int(per_client))
    partitions = [partition.round_robin(labels, lists, stream) for labels in (data.y, data.y_test)]
    clients = []
    for client, (client_samples, test) in enumerate(zip(*partitions, strict=True)):
        own = rng.stream(experiment.seed, rng.SPLIT, client=client)
        train, validation, _ = parts(client_samples, own, 1.0, experiment.validation_share)
        clients.append(Split(train, validation, test + np.int32(len(data.y))))
    everything = data.pooled()
    pool = _samples(data, everything.x, everything.y)
    common = _samples(data, data.x_test, data.y_test)
    return Federation(graph, pool, tuple(clients), experiment.seed, common)


def partition_samples(data: DataSet, how: str, clients: int, seed: int) -> list[Indices]:
    """Every client's examples under a partition named as on the command line. Raises ValueError for another name."""
    stream = rng.stream(seed, rng.PARTITION)
    if how == "iid":
        return partition.iid(data.y, clients, stream)
    if how == "group":
        if data.groups is None:
            raise ValueError(f"partition=group with data={data.name}, which has no groups; expected {PARTITIONS}")
        return partition.by_group(data.groups, clients, stream)
    scheme, parameters = _scheme(how)
    if scheme is not partition.lognormal:
        _check_classes(how, data)
    return scheme(data.y, clients, stream, *parameters)


def _check_classes(how: str, data: DataSet) -> None:
    """Raises ValueError if examples that have no class are to be partitioned by class."""
    if not data.has_labels:
        wanted = "iid, lognormal:SIGMA or group"
        raise ValueError(
            f"partition={how} with data={data.name}, whose targets are values, no classes; expected {wanted}"
        )


def _scheme(how: str) -> tuple[Callable[..., list[Indices]], list[Any]]:
    """The partition that "name:parameter:..." stands for, and its parameters; Dirichlet's second may be left out."""
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
        if method.needs_validation:
            for client, split in enumerate(federation.clients):
                if not len(split.validation):
                    raise ValueError(
                        f"{name}: client {client} has 0 validation samples beside {len(split.train)} for training; "
                        f"expected at least 1; raise validation_share, or set es_set=test or accept_on=test"
                    )


def check_begin(methods: Mapping[str, Algorithm], federation: Federation, rounds: int) -> None:
    """Raises ValueError naming the method that cannot begin with this model, as it may have no body or a BatchNorm."""
    spec, initial = ModelSpec.of(federation.graph), federation.initial()
    graph = federation.graph
    task = Task(
        spec,
        len(federation.clients),
        federation.seed,
        examples=federation.examples,
        rounds=rounds,
        loss=federation.data.loss,
        outputs=graph.output_shape[0],
        graph=graph,
    )
    for name, method in methods.items():
        try:
            method.start(task, initial)
        except ValueError as error:
            has_statistics = any(param.kind == "stat" for param in spec.params.values())
            fitting = _without_statistics(federation.graph) if method.no_statistics and has_statistics else ""
            raise ValueError(f"{name}: {error}{fitting}") from None


def _without_statistics(graph: Graph) -> str:
    """Built-in models for examples of this shape that have no running statistics, in words, the smallest first."""
    found = {}
    for name in architectures.NAMES:
        try:
            spec = ModelSpec.of(architectures.build(name, graph.input_shape, *graph.output_shape))
        except GraphError:
            continue  # its windows are larger than such examples
        if all(param.kind == "learn" for param in spec.params.values()):
            found[name] = sum(math.prod(param.shape) for param in spec.params.values())
    *others, last = sorted(found, key=found.__getitem__) or [""]
    return f"; --model {', '.join(others)} or {last} has none" if others else f"; --model {last} has none" * bool(last)


def built_in(experiment: Experiment, classes: int) -> Graph | None:
    """The built-in model of an experiment with so many classes, without its data; None where these alone say the shape
    of examples. Raises  ValueError or GraphError if there is no such model.
    """
    shape = shape_of(experiment.data)
    return None if shape is None else _built_in(experiment, shape, classes)


def _built_in(experiment: Experiment, input_shape: Shape, classes: int, vocabulary: int | None = None) -> Graph:
    return architectures.build(_model(experiment, input_shape, vocabulary), input_shape, classes, vocabulary)


def _model(experiment: Experiment, input_shape: Shape, vocabulary: int | None) -> str:
    if experiment.model.startswith(NAMED):
        raise ValueError(f"model={experiment.model} without its file; expected --model FILE, or the run that has it")
    if experiment.model and experiment.model not in architectures.NAMES:
        raise ValueError(
            f"model={experiment.model}; expected one of {', '.join(architectures.NAMES)}, or FILE.safetensors"
        )
    if experiment.model:
        return experiment.model
    return MODEL_OF_SHAPE.get(input_shape) or architectures.default_name(input_shape, vocabulary)
