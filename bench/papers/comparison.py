"""The comparison as values: four federations, sixteen methods, and the rates from which each may choose.

weak.py is another study on these federations. All methods on a data set share one model: the model of FedSPU's paper
without its batch norms, whose running statistics PFLEGO refuses. Every method gets its rate by `tune`
(edgefl/study/tuning.py), on validation samples in short runs of seed 1, and then runs three seeds. Ditto has 2 of the 5
epochs for the global model, as in FedSpa's paper. So all methods do five epochs a round, except PFLEGO, whose client
takes 50 steps of its head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.papers.table import Run
from edgefl import rng
from edgefl.experiment.assembly import assemble
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_data import data_of
from edgefl.experiment.settings import Experiment
from edgefl.experiment.tuned_values import Grid
from edgefl.methods.method_label import Variant, folder, label_of
from edgefl.models.graph import INPUT, Graph, Model
from edgefl.models.graph.graph import Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Shape

SEEDS = (1, 2, 3)
TUNING_SEEDS = (101, 102)  # of a search's trials, whose draws no test sees
POINTS = 10  # evaluations of a run
REFRESH = 5  # epochs after which every client is evaluated once more at the end, from the newest values
GROUPS = 40  # number of groups of speakers


@dataclass(frozen=True)
class Place:
    """A data set as a federation of clients.

    channels, kernel, stride, padding  of both of its convolutions, with max pooling 2 x 2 after each
    rates   that may be chosen
    rounds  of a run, and of a short one that chooses a rate
    samples  number of samples of the data set that the clients share, drawn for each seed. 0: all
    points   evaluations of a run, 0 for as many as the study has
    """

    data: str
    settings: dict[str, Any]
    channels: tuple[int, int]
    convolution: tuple[int, int, int]
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    rounds: tuple[int, int] = (60, 20)
    samples: int = 0
    points: int = 0


def _of(clients: int, per_round: int, partition: str = "dirichlet:0.1", **more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"epochs": 5, "batch": 16, "train_share": 0.7, "validation_share": 0.1}
    return {**known, "clients": clients, "per_round": per_round, "partition": partition, "pool": True, **more}


WORKLOADS = {
    "digits": Place("digits", _of(20, 5), (32, 64), (3, 1, 1), (0.03, 0.1, 0.3, 1.0)),
    "speech": Place("speech_commands_testset_logmel.npz", _of(GROUPS, 8, "group"), (50, 50), (2, 2, 2)),
    "fashion": Place("fashion-mnist", _of(100, 10), (20, 20), (3, 1, 1)),
    "emnist": Place("emnist_byclass_official_test.npz", _of(100, 10), (20, 20), (3, 1, 1)),
}
THINNED = {  # places with a part of the samples, for studies that adapt every client at every evaluation
    f"{name}-5000": replace(WORKLOADS[name], settings=_of(20, 5), samples=5000, points=6)
    for name in ("fashion", "emnist")
}


def place(name: str) -> Place:
    return WORKLOADS[name] if name in WORKLOADS else THINNED[name]


@dataclass(frozen=True)
class Method:
    """A method, which is a row of the tables.

    label     as on the command line, with options of its own
    rate      the option that is chosen
    like      the method whose rate it takes, if it does not choose a rate of its own
    adapting  the values that are tried of other options, at the chosen rate. They choose how a client adapts the model
    own       other values of the method's constants, which a search (search.py) tries at the best rate
    points    evaluations of a run, 0 for as many as the study has
    """

    label: str
    rate: str = "lr"
    like: str = ""
    adapting: Grid = ()
    own: tuple[Mapping[str, Any], ...] = ()
    points: int = 0


@dataclass(frozen=True)
class Study:
    """Methods beside each other on a set of federations.

    name    of its command and its folders
    more    settings of its whole runs, beside those of their places
    points  evaluations of a run
    lent    studies whose rates serve here, too, where the same runs have chosen them
    trials  number of trials of every method's search (search.py). 0: `tune` chooses among the rates of the place
    rate    rate of all methods. 0: it is chosen
    """

    name: str
    methods: Mapping[str, Method]
    more: Mapping[str, Any]
    points: int = POINTS
    lent: tuple[str, ...] = ()
    trials: int = 0
    rate: float = 0.0


METHODS = {
    "FedSPU": Method("fedspu"),
    "FedSPU + ES": Method("fedspu-es", like="FedSPU"),  # the same steps, fewer of them
    "FedSPU, keep=1": Method("fedspu:keep=1"),
    "FedAvg": Method("fedavg"),
    "FedAvg-FT": Method("fedavg-ft"),
    "Local": Method("local"),
    "PFLEGO": Method("pflego:server=adam", "beta"),
    "FedPer": Method("fedper"),
    "Ditto": Method("ditto:epochs=2"),
    "FedProx": Method("fedprox"),
    "SCAFFOLD": Method("scaffold"),
    "FedRep": Method("fedrep"),
    "FedBABU": Method("fedbabu"),
    "FedMP": Method("fedmp"),
    "PruneFL": Method("prunefl"),
    "Hermes": Method("hermes"),
}
COMPARISON = Study("comparison", METHODS, {"refresh": REFRESH})
HELD_OUT = Study(  # local training has nothing for clients that never take part
    "held-out", {name: each for name, each in METHODS.items() if name != "Local"}, {"held_out": 5}, 2, ("comparison",)
)


def tuned(study: Study, workload: str, name: str) -> Run:
    """Return the run that chooses a method's rate. Its federation and the tried options decide."""
    method = study.methods[study.methods[name].like or name]
    rates = ((method.rate, place(workload).rates),)
    experiment = _trials(workload, method.label, rates)
    return Run(f"{workload}-{folder(method.label)}-rate", experiment, federation)


def adapted(study: Study, workload: str, name: str, rate: float) -> Run:
    """Return the run that chooses how a client adapts the model, as `tuned` chooses the rate."""
    method = study.methods[name]
    experiment = _trials(workload, _at(method, {method.rate: rate}), method.adapting)
    return Run(f"{workload}-{folder(method.label)}-adapting", experiment, federation)


def searched(study: Study, workload: str, name: str, values: Mapping[str, Any], seed: int) -> Run:
    """Return one seed of a trial of a method's search. Clients are tested on their validation samples."""
    method, short = study.methods[study.methods[name].like or name], place(workload).rounds[1]
    experiment = replace(_experiment(workload, _at(method, values), seed, eval_every=short), rounds=short)
    named = folder(_at(method, values))
    return Run(f"{workload}-{named}-trial-seed{seed}", experiment, federation)


def run(
    study: Study, workload: str, name: str, rate: float, seed: int, adapting: Mapping[str, Any] | None = None
) -> Run:
    """Return a whole run of a method."""
    method = study.methods[name]
    label = _at(method, {method.rate: rate, **(adapting or {})})
    points = method.points or place(workload).points or study.points
    every = study.more.get("rounds", place(workload).rounds[0]) // points
    experiment = _experiment(workload, label, seed, eval_every=every, **study.more)
    return Run(f"{workload}-{folder(method.label)}-seed{seed}", experiment, federation)


def _trials(workload: str, label: str, tried: Grid) -> Experiment:
    """Return the experiment of short runs that choose among values. A trial is evaluated after its last round alone."""
    short = place(workload).rounds[1]
    return _experiment(workload, label, SEEDS[0], tune=tried, tune_rounds=short, eval_every=10)


def _at(method: Method, values: Mapping[str, Any]) -> str:
    """Return the label of a method with these values of its options."""
    name, options = Variant.of(method.label)
    return label_of(name, {**dict(options), **values})


def _experiment(workload: str, label: str, seed: int, **more: Any) -> Experiment:
    settings = {**place(workload).settings, "rounds": place(workload).rounds[0], "checkpoint_every": 5, **more}
    return Experiment((label,), data=place(workload).data, seed=seed, **settings)


# Federations.


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return the experiment's federation, with the model of its place."""
    workload = _place_of(experiment)
    data = data_of(experiment, data_dir)
    data = _thinned(data, workload.samples, experiment.seed) if workload.samples else data
    data = _in_groups(data, experiment.owners, experiment.seed) if experiment.partition == "group" else data
    graph = model(workload, data.input_shape, data.classes)
    drawn = Model(graph, graph.init(rng.stream(experiment.seed, rng.INIT)))
    return assemble(experiment, data_dir, drawn, data)


def model(workload: Place, input_shape: Shape, classes: int) -> Graph:
    """Return the graph: two convolutions, each with a rectifier and max pooling, and a Linear layer."""
    kernel, stride, padding = workload.convolution
    nodes, channels, last = [], input_shape[0], INPUT
    for index, out in enumerate(workload.channels, 1):
        sizes = ((size, size) for size in (kernel, stride, padding))
        layers = (Conv2d(channels, out, *sizes), ReLU(), MaxPool2d((2, 2), (2, 2)))
        for name, operation in zip(("conv", "relu", "pool"), layers, strict=True):
            nodes.append(Node(f"{name}{index}", operation, (last,)))
            last = nodes[-1].name
        channels = out
    nodes.append(Node("flatten", Flatten(), (last,)))
    (features,) = Graph(input_shape, tuple(nodes)).output_shape
    return Graph(input_shape, (*nodes, Node("fc", Linear(features, classes), ("flatten",))))


def _place_of(experiment: Experiment) -> Place:
    """Return the place that has the experiment's data and number of clients, or else the first with these data."""
    of_data = [each for each in (*WORKLOADS.values(), *THINNED.values()) if each.data == experiment.data]
    return next((each for each in of_data if each.settings["clients"] == experiment.owners), of_data[0])


def _thinned(data: DataSet, samples: int, seed: int) -> DataSet:
    """Return the data with `samples` of its samples, in their order. The data have neither groups nor a test part."""
    chosen = np.sort(rng.stream(seed, rng.PARTITION, client=1).permutation(len(data))[:samples])
    return replace(data, x=data.x[chosen], y=data.y[chosen])


def _in_groups(data: DataSet, groups: int, seed: int) -> DataSet:
    """Return the data with its speakers dealt out to `groups` groups, whose sizes differ by one speaker at most."""
    assert data.groups is not None
    speakers = np.unique(data.groups[data.groups >= 0])
    order = rng.stream(seed, rng.PARTITION).permutation(len(speakers))
    group = np.empty(len(speakers), np.int32)
    group[order] = np.arange(len(speakers)) % groups
    return replace(data, groups=np.where(data.groups < 0, -1, group[np.searchsorted(speakers, data.groups)]))
