"""The description of the user's data as a value: shapes, classes, groups, units, the training to come, and warnings.

The data and the settings are the same as for a simulation. Reasons for which the simulation would be refused are among
the warnings. Nothing is trained, written or printed. The caller measures the time of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.assembly import assemble, check_begin, check_held_out, model_name
from edgefl.experiment.data.column_units import is_normalised
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.scales import robust
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.experiment.unit_checks import check_units, constant_columns, constant_columns_said
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import Graph, Model

OUTLYING = 8.0  # distance from the median, in spreads, of an outlier
UNLIKE = 1e3  # ratio of spreads from which a model without a norm hardly learns from the smaller column
FINE = 1e5  # ratio of mean to spread from which float32 has lost the differences
ONE_SIDED = 0.9  # share of the largest class, from 0 to 1
FEWEST_OF_CLASS, FEWEST_OF_GROUP = 5, 10  # samples

Counts = tuple[tuple[str, int], ...]
StepSeconds = Callable[[Model, TrainingConfiguration], float]


class ColumnUnits(NamedTuple):
    """A feature: its name or index, median, spread (data/scales.py), ends, and the number of values far outside."""

    name: str
    median: float
    spread: float
    low: float
    high: float
    outliers: int


class DataWarning(NamedTuple):
    """A warning about the data, with its remedy. A refusal would end the simulation before round 1."""

    what: str
    remedy: str
    is_refusal: bool = False


@dataclass(frozen=True)
class PlannedTraining:
    """The training that would follow: the model, its size, the participants, and the steps of a round.

    train         training samples of the smallest and of the largest client
    steps         mean number of steps of a client in a round
    step_seconds  seconds of a step
    """

    model: str
    input_shape: tuple[int, ...]
    outputs: int
    loss: str
    parameters: int
    memory_bytes: int
    partition: str
    clients: int
    per_round: int
    train: tuple[int, int]
    steps: float
    step_seconds: float

    def round_seconds(self, workers: int) -> float:
        """Return the training seconds of a round in the simulation, with `workers` clients trained at the same time."""
        return math.ceil(self.per_round / max(1, workers)) * self.steps * self.step_seconds


@dataclass(frozen=True)
class DataCheck:
    """The description of the data and of the training to come. Fields that do not apply are empty.

    test       samples of the published test part
    low, high  the smallest and the largest input
    classes    names and counts, in the order of labels
    groups     names and counts, the smallest first
    nobody     samples that belong to no group
    missing    number of missing values in the inputs, for which a mean stands
    columns    units of the features, empty for other inputs
    training   None: nothing can be trained
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    test: int
    low: float
    high: float
    notes: tuple[str, ...]
    classes: Counts
    groups: Counts
    nobody: int
    missing: int
    columns: tuple[ColumnUnits, ...]
    training: PlannedTraining | None = None
    warnings: tuple[DataWarning, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Return whether a simulation of these data with these settings would be refused."""
        return any(each.is_refusal for each in self.warnings)


def check(experiment: Experiment, data: DataSet, model: Model | None, seconds: StepSeconds) -> DataCheck:
    """Describe these data with these settings.

    data     the data as `data_of` returns them
    model    the model that the settings name by its content. None: the settings name a built-in model
    seconds  function that returns the time of a training step in seconds, measured or estimated
    """
    found = _described(data)
    warnings = [*_of_classes(found), *_of_groups(found, experiment)]
    try:
        federation = assemble(experiment, None, model, data)
    except (ValueError, DataError) as error:
        return replace(found, warnings=(_refusal(error), *_of_columns(found.columns, None), *warnings))
    columns = [*_of_columns(found.columns, federation.graph), *_of_clients(found.columns, federation)]
    warnings = [*_refusals(experiment, federation), *columns, *warnings]
    training = _training(experiment, federation, seconds)
    return replace(found, notes=federation.meaning.notes, training=training, warnings=tuple(warnings))


def _described(data: DataSet) -> DataCheck:
    """Describe the data alone."""
    low, high = (float(data.x.min()), float(data.x.max())) if data.x.size else (0.0, 0.0)
    test = 0 if data.x_test is None else len(data.x_test)
    nobody = 0 if data.groups is None else int((data.groups < 0).sum())
    about = data.name, data.x.shape, str(data.x.dtype), test, low, high, data.notes
    missing = 0 if data.absent is None else int(data.absent.sum())
    return DataCheck(*about, _classes(data), _groups(data), nobody, missing, _columns(data))


def _refusals(experiment: Experiment, federation: Federation) -> list[DataWarning]:
    """Return warnings about methods or units that would be refused."""
    found = []
    for tried in (_check_methods, check_units):
        try:
            tried(experiment, federation)
        except (ValueError, DataError) as error:
            found.append(_refusal(error))
    return found


def _check_methods(experiment: Experiment, federation: Federation) -> None:
    algorithms = experiment.algorithms()
    check_held_out(algorithms, federation)
    check_begin(algorithms, federation, experiment.rounds)


def _refusal(error: Exception) -> DataWarning:
    """Turn an error into a warning. An error of edgefl has its remedy after "expected"."""
    what, _, remedy = str(error).partition("; expected ")
    return DataWarning(what, f"expected {remedy}" if remedy else "", True)


def _columns(data: DataSet) -> tuple[ColumnUnits, ...]:
    """Return the units of each feature of inputs [N, F]."""
    if data.x.ndim != 2 or data.vocabulary is not None or not len(data.x):
        return ()
    names = data.columns or tuple(map(str, range(data.x.shape[1])))
    x = data.with_nan()
    medians, spreads = (np.asarray(each) for each in robust(x))
    outliers = (np.abs(x - medians) > OUTLYING * spreads).sum(axis=0)
    ends = np.fmin.reduce(x), np.fmax.reduce(x)  # NaN only for a column without a value
    numbers = np.nan_to_num(np.stack([medians, spreads, *ends], axis=1)).tolist()
    rows = zip(names, numbers, outliers.tolist(), strict=True)
    return tuple(
        ColumnUnits(name, median, spread, low, high, count) for name, (median, spread, low, high), count in rows
    )


def _classes(data: DataSet) -> Counts:
    if not data.has_classes:
        return ()
    counts = np.bincount(data.y, minlength=data.classes)
    names = data.class_names or tuple(map(str, range(data.classes)))
    return tuple((name, int(count)) for name, count in zip(names, counts, strict=False))


def _groups(data: DataSet) -> Counts:
    if data.groups is None:
        return ()
    ids, sizes = data.group_sizes()
    order = np.argsort(sizes, kind="stable")
    return tuple((data.name_of_group(int(ids[at])).strip("'"), int(sizes[at])) for at in order)


def _training(experiment: Experiment, federation: Federation, seconds: StepSeconds) -> PlannedTraining:
    graph, loss = federation.graph, federation.data.loss
    train = [len(split.train) for split in federation.clients]
    batch = max(1, min(experiment.batch, max(train)))
    step = TrainingConfiguration(experiment.model, graph, batch, "full", loss=loss)
    steps = experiment.epochs * float(np.mean([math.ceil(count / experiment.batch) for count in train]))
    return PlannedTraining(
        model=model_name(experiment, graph.input_shape, graph.vocabulary),
        input_shape=graph.input_shape,
        outputs=graph.output_shape[0],
        loss=str(loss),
        parameters=sum(math.prod(info.shape) for info in graph.parameters().values()),
        memory_bytes=estimate("exact", step).total,
        partition=experiment.partition,
        clients=len(federation.clients),
        per_round=experiment.per_round,
        train=(min(train), max(train)),
        steps=steps,
        step_seconds=seconds(Model(graph, federation.initial()), step),
    )


def _of_columns(columns: tuple[ColumnUnits, ...], graph: Graph | None) -> list[DataWarning]:
    """Return warnings about the units of the columns."""
    found = []
    for each in columns:
        if each.low == each.high:
            found.append(DataWarning(f"column {each.name} is {each.low:g} in every sample", f"--drop {each.name}"))
        elif abs(each.median) > FINE * each.spread:
            fine = f"differs by {each.spread:.3g}, too fine for float32"
            what = f"column {each.name} is about {each.median:.3g} and {fine}"
            found.append(DataWarning(what, f"subtract {each.median:.3g} from the column"))
        elif each.outliers:
            what = f"column {each.name} has {each.outliers} values over {OUTLYING:g} spreads from its median"
            found.append(
                DataWarning(what, f"check these values: the column goes from {each.low:.3g} to {each.high:.3g}")
            )
    spreads = [each.spread for each in columns if each.low < each.high]
    if graph is not None and not is_normalised(graph) and spreads and max(spreads) > UNLIKE * min(spreads):
        what = f"spreads of columns go from {min(spreads):.3g} to {max(spreads):.3g}, and the model does not normalise"
        found.append(DataWarning(what, "--standardise, or a model that begins with a batch norm"))
    return found


def _of_clients(columns: tuple[ColumnUnits, ...], federation: Federation) -> list[DataWarning]:
    """A warning about columns that differ between clients alone."""
    names = constant_columns(federation) if columns else ()
    return [DataWarning(*constant_columns_said(names))] if names else []


def _of_classes(found: DataCheck) -> list[DataWarning]:
    """Return warnings about the classes."""
    counts = dict(found.classes)
    total = sum(counts.values())
    if not counts:
        return []
    if len([count for count in counts.values() if count]) == 1:
        return [DataWarning("all samples have one class, so every model is right", "add samples of other classes")]
    said = []
    largest = max(counts, key=counts.__getitem__)
    if counts[largest] > ONE_SIDED * total:
        share = f"{100 * counts[largest] / total:.1f} % of the samples have class {largest}"
        what = f"{share}, which is the accuracy of a model that learns nothing"
        said.append(DataWarning(what, "--loss cross-entropy:weight=... weighs the rare classes more"))
    rare = [name for name, count in counts.items() if count < FEWEST_OF_CLASS]
    if rare:
        few = ", ".join(f"{name} ({counts[name]})" for name in rare[:FEWEST_OF_CLASS])
        said.append(DataWarning(f"{len(rare)} classes have fewer than {FEWEST_OF_CLASS} samples: {few}", "join them"))
    return said


def _of_groups(found: DataCheck, experiment: Experiment) -> list[DataWarning]:
    """Return warnings about the groups."""
    said = []
    small = [name for name, count in found.groups if count < FEWEST_OF_GROUP]
    if small and experiment.partition == "group":
        few = ", ".join(f"{name} ({count})" for name, count in found.groups[:FEWEST_OF_CLASS])
        what = f"{len(small)} groups have fewer than {FEWEST_OF_GROUP} samples; the smallest are {few}"
        said.append(DataWarning(what, f"--fewest {FEWEST_OF_GROUP} leaves these groups out"))
    if found.groups and experiment.partition != "group":
        what = f"the data say whom samples come from, and partition={experiment.partition} mixes them"
        said.append(DataWarning(what, "--partition group"))
    if found.nobody:
        said.append(
            DataWarning(f"{found.nobody} samples belong to no group and are left out", "assign them to a group")
        )
    return said
