"""The assembly of an experiment from its settings: load the data, choose the model, give every client its samples,
build the methods, and check that the methods can begin. The result is a value of assembled_experiment.py.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgefl import rng
from edgefl.errors import GraphError, expected_name
from edgefl.experiment.array_data import OwnData
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.data.catalog import shape_of
from edgefl.experiment.data.client_splits import ClientSplits, split_clients
from edgefl.experiment.data.dataset import Array, DataSet, Shape
from edgefl.experiment.data.missing_values import with_means
from edgefl.experiment.data.partition_by_name import partition_samples, partition_with_test
from edgefl.experiment.data.split import Split, parts, split_by_time
from edgefl.experiment.data_meaning import DataMeaning
from edgefl.experiment.federation import Federation
from edgefl.experiment.model_file import NAMED, check_fits, in_order_of
from edgefl.experiment.place_targets import fitted, have_places, with_class_axis
from edgefl.experiment.run_data import data_of, say_notes
from edgefl.experiment.sample_minimum import check_batch, small_clients
from edgefl.experiment.settings import Experiment
from edgefl.experiment.unit_checks import check_units, constant_columns, constant_columns_said
from edgefl.learning import Samples
from edgefl.learning.losses import BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.learning.running.input_checks import check_samples
from edgefl.learning.targets import as_targets, default_loss, refuse_values
from edgefl.methods import METHODS, Algorithm
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.graph.operations import Sigmoid
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trained_part import head_hint, with_trained

OF_LOGITS = ("cross-entropy", "bce")
MODEL_OF_SHAPE: dict[Shape, str] = {  # other shapes have models that follow them (graph/default_models.py)
    (1, 8, 8): "digits_cnn",
    (1, 28, 28): "fedspu_emnist",
    (1, 32, 32): "fedspu_speech",
    (3, 32, 32): "fedspu_cifar",
}


def assemble_experiment(
    experiment: Experiment,
    data_dir: str | os.PathLike[str] | None = None,
    model: Model | None = None,
    own: OwnData | None = None,
    served: bool = False,
) -> AssembledExperiment:
    """Return everything that follows from the settings, after every check that is possible before the first round. The
    data are loaded once for all seeds. Nothing is written.

    model   the model that the settings name by its content. None: the settings name a built-in model
    own     the data that the settings name by their content. None: the settings name a data set or a file
    served  whether the clients are devices with samples of their own: a server runs the first seed only, and no
            client is refused for lack of validation samples
    Raises  ValueError, DataError, GraphError or OSError for an experiment that cannot be run.
    """
    algorithms = experiment.algorithms()
    seeds = experiment.each_seed()[:1] if served else experiment.each_seed()
    data = data_of(experiment, data_dir, own)
    federations: dict[int, Federation] = {}
    for undrawn in _federations(seeds, model, data):
        if not federations:
            say_notes(data.name, undrawn.meaning.notes, sys.stderr)
        federation = undrawn.with_weights()
        if not served:
            check_held_out(algorithms, federation)
        check_begin(algorithms, federation, experiment.rounds)
        task = federation.task(experiment.rounds)
        for name, algorithm in algorithms.items():
            check_batch(name, algorithm, task)
        if not served and (found := small_clients(algorithms, federation, experiment.rounds)):
            raise ValueError(found)
        if not federations:  # the seeds share their samples
            check_units(experiment, federation)
            if names := constant_columns(federation):
                say_notes(data.name, ["; ".join(constant_columns_said(names))], sys.stderr)
        federations[federation.seed] = federation
    return AssembledExperiment(experiment, algorithms, federations, model)


def assemble(
    experiment: Experiment,
    data_dir: str | os.PathLike[str] | None = None,
    model: Model | None = None,
    data: DataSet | None = None,
) -> Federation:
    """Return the federation of the experiment's first seed, which depends on the settings, the data and the model
    alone. No method is built, so no method is checked.

    model   the model that the settings name by its content. None: the settings name a built-in model
    data    the experiment's data, if they have been loaded (`data_of`)
    Raises  DataError if the data cannot be had or a client gets too few samples, ValueError for an unsuitable setting.
    """
    return next(_federations([experiment], model, data_of(experiment, data_dir) if data is None else data))


def _federations(seeds: Sequence[Experiment], model: Model | None, data: DataSet) -> Iterator[Federation]:
    """Yield the federation of each seed, one after the other. They share the graph and the samples in memory.

    seeds   the experiments of one seed each, which differ in nothing but the seed
    """
    loss, notes = _loss(seeds[0], model, data)
    if loss.has_labels and not data.has_labels:
        refuse_values(data.y, loss)
    data = data if model is None else in_order_of(model.graph, data)
    meaning = replace(DataMeaning.of(data), notes=notes)
    graph, weights = _graph(seeds[0], model, data, loss), None if model is None else model.params
    samples: tuple[Samples, Samples | None] | None = None
    for one in seeds:
        splits = _splits(one, data)
        clients, held_out = splits[: one.clients], splits[one.clients :]
        complete = with_means(data, (client.train for client in clients))
        samples = samples if samples and complete is data else _samples(one, complete, loss, graph)
        owned, common = samples
        yield Federation(graph, owned, clients, one.seed, common, weights, meaning, data.columns, held_out)


def _loss(experiment: Experiment, model: Model | None, data: DataSet) -> tuple[Loss, tuple[str, ...]]:
    """Return the loss that the settings name, or else the loss that suits the targets and the model. The notes say how
    the targets were understood. A model from a file that has one output decides between two classes.
    """
    if experiment.loss:
        return Loss.parse(experiment.loss), data.notes
    if data.has_labels and data.classes == 2 and model is not None and model.graph.output_shape == (1,):
        return BinaryCrossEntropy(), (
            *data.notes,
            "the model has 1 output for 2 classes: it learns one decision (loss=bce)",
        )
    loss = default_loss(data.y)
    if isinstance(loss, CrossEntropy) and model is not None and data.y.ndim > 1:
        return with_class_axis(loss, data, model.graph.output_shape)
    return loss, data.notes


def _graph(experiment: Experiment, model: Model | None, data: DataSet, loss: Loss) -> Graph:
    """Return the graph of the model, which takes the data's examples and has the outputs that the loss needs."""
    outputs = data.classes if loss.has_labels == data.has_labels else 1
    if model is None:
        graph = _built_in(experiment, data.input_shape, outputs, data.vocabulary)
    else:
        graph = model.graph
        needed = graph.output_shape if have_places(data.y) else (outputs,)
        check_fits(graph, experiment.data, data, needed, loss.has_labels, experiment.axes)
    loss.check_outputs(loss.split(graph.output_shape)[0] if have_places(data.y) else outputs)
    graph = with_trained(graph, experiment.train)
    if hint := head_hint(graph, experiment.train):
        warnings.warn(hint, stacklevel=2)
    if isinstance(graph.nodes[-1].op, Sigmoid) and loss.name in OF_LOGITS:
        warnings.warn(
            f"the model ends in Sigmoid, and loss={loss} takes logits and applies the sigmoid itself: outputs from 0 "
            "to 1 learn slowly; expected a model without its last Sigmoid",
            stacklevel=2,
        )
    return graph


def _samples(experiment: Experiment, data: DataSet, loss: Loss, graph: Graph) -> tuple[Samples, Samples | None]:
    """Return the samples that clients own, with targets as the loss takes them, and the published test part. The test
    part is None if the data set has none of its own. If the test part is partitioned, the clients' samples contain it
    too.

    Raises  DataError if the data's targets do not fit the loss.
    """

    def made(x: Array, y: Array) -> Samples:
        targets = fitted(as_targets(y, loss), graph.output_shape, loss)
        return Samples(x, targets, data.scale, data.shift, loss)

    common = None
    if data.x_test is not None and data.y_test is not None:
        common = made(data.x_test, data.y_test)
    pooled = data.pooled() if experiment.partition_test else data
    owned = made(pooled.x, pooled.y)
    if have_places(owned.y) or len(graph.output_shape) > 1:
        for each in (owned, common):
            if each is not None:
                check_samples(each, graph, np.float32)
    return owned, common


def _splits(experiment: Experiment, data: DataSet) -> ClientSplits:
    """Return every client's training, validation and test samples, as indices into the samples that clients own.
    Clients that never take part come last.
    """
    if experiment.partition_test:
        return _splits_with_published_test(experiment, data)
    try:
        partitions = partition_samples(data, experiment.partition, experiment.owners, experiment.seed)
    except ValueError as error:
        if not experiment.held_out:
            raise
        asked = f"clients={experiment.clients} and held_out={experiment.held_out} more"
        raise ValueError(f"{asked}: {error}") from None
    shares = experiment.train_share, experiment.validation_share

    def who(client: int) -> str:
        if data.groups is None or experiment.partition != "group":
            return f"client {client}"
        return f"client {client}, group {data.name_of_group(int(data.groups[partitions[client][0]]))},"

    if experiment.split != "time":
        return split_clients(partitions, experiment.seed, *shares, who)
    if data.times is None:
        raise ValueError(
            f"split=time with data={data.name}, which has no times; expected a column of times (--time NAME)"
        )
    times = data.times
    return ClientSplits.of([split_by_time(own, times, *shares, who(client)) for client, own in enumerate(partitions)])


def _splits_with_published_test(experiment: Experiment, data: DataSet) -> ClientSplits:
    """Give every client its share of the training part, split into training and validation samples, and for testing its
    share of the published test part. In the clients' samples the test part follows the training part.
    """
    shares = partition_with_test(data, experiment.partition, experiment.owners, experiment.seed)
    clients = []
    for client, (client_samples, test) in enumerate(zip(*shares, strict=True)):
        stream = rng.stream(experiment.seed, rng.SPLIT, client=client)
        train, validation, _ = parts(client_samples, stream, 1.0, experiment.validation_share)
        clients.append(Split(train, validation, test + np.int32(len(data.y))))
    return ClientSplits.of(clients)


def check_held_out(methods: Mapping[str, Algorithm], federation: Federation) -> None:
    """Raise ValueError if a method needs validation samples, as for early stopping, and some client has no such
    samples.
    """
    for name, method in methods.items():
        if method.needs_validation:
            for client, split in enumerate(federation.clients):
                if not len(split.validation):
                    raise ValueError(
                        f"{name}: client {client} has 0 validation samples and {len(split.train)} training samples; "
                        f"expected at least 1; raise validation_share, or set es_set=test or accept_on=test"
                    )


def check_begin(methods: Mapping[str, Algorithm], federation: Federation, rounds: int) -> None:
    """Raise ValueError naming a method that cannot begin with this model, for example because of a BatchNorm."""
    task, initial = federation.task(rounds), federation.initial()
    if not task.spec.learned:
        count = len(task.spec.params)
        raise ValueError(
            f"all {count} parameters of the model are frozen; expected at least one trained parameter, as by "
            '--train head (train="head"), or by requires_grad_(True) on the last layer of a torch module'
        )
    for name, method in methods.items():
        check_slices(name, method, task.spec)
        try:
            method.start(task, initial)
        except ValueError as error:
            has_statistics = any(param.kind == "stat" for param in task.spec.params.values())
            fitting = _without_statistics(federation.graph) if method.no_statistics and has_statistics else ""
            raise ValueError(f"{name}: {error}{fitting}") from None


def check_slices(name: str, method: Algorithm, spec: ModelSpec) -> None:
    """Raise ValueError if the model has slices and the method trains whole parameters alone."""
    if spec.slices and not method.takes_slices:
        first = next(iter(spec.slices.values()))
        taking = ", ".join(other for other, made in METHODS.items() if made().takes_slices)
        raise ValueError(
            f"{name}: the trained part {first.text} is a slice of a parameter; expected whole parameters, as with "
            f"--train {first.name}, or one of the methods {taking}"
        )


def _without_statistics(graph: Graph) -> str:
    """List in words the built-in models for this shape of examples without running statistics, smallest first."""
    found = {}
    for name in architectures.NAMES:
        try:
            spec = ModelSpec.of(architectures.build(name, graph.input_shape, *graph.output_shape))
        except GraphError:
            continue  # the windows of this model are larger than such examples
        if len(spec.learned) == len(spec.params):
            found[name] = sum(math.prod(param.shape) for param in spec.params.values())
    *others, last = sorted(found, key=found.__getitem__) or [""]
    return (
        f"; --model {', '.join(others)} or {last} has no running statistics"
        if others
        else f"; --model {last} has no running statistics" * bool(last)
    )


def built_in(experiment: Experiment, classes: int) -> Graph | None:
    """Return the built-in model of an experiment with so many classes, without loading its data. Return None if the
    shape of an example is known from the data files only. Raises ValueError or GraphError if there is no such model.
    """
    shape = shape_of(experiment.data)
    return None if shape is None else with_trained(_built_in(experiment, shape, classes), experiment.train)


def _built_in(experiment: Experiment, input_shape: Shape, classes: int, vocabulary: int | None = None) -> Graph:
    return architectures.build(_named(experiment, input_shape, vocabulary), input_shape, classes, vocabulary)


def model_name(experiment: Experiment, input_shape: Shape, vocabulary: int | None) -> str:
    """Return the model that the settings name, or else the name of the built-in model for the shape of an example."""
    return experiment.model or MODEL_OF_SHAPE.get(input_shape) or architectures.default_name(input_shape, vocabulary)


def _named(experiment: Experiment, input_shape: Shape, vocabulary: int | None) -> str:
    """Return the name of a built-in model. Raises ValueError if the settings name a model that is not built in."""
    if experiment.model.startswith(NAMED):
        raise ValueError(
            f"model={experiment.model} without its file; expected --model FILE, or the run that keeps the file"
        )
    if experiment.model and experiment.model not in architectures.NAMES:
        raise ValueError(
            f"model={experiment.model}; {expected_name(experiment.model, architectures.NAMES, 'FILE.safetensors')}"
        )
    return model_name(experiment, input_shape, vocabulary)
