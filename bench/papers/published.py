"""The papers' tables on data that are published and large: MNIST, EMNIST, CIFAR-10, CIFAR-100 and Speech Commands.

The tables have the papers' settings, as the presets say them, and one seed. A table whose data are not found is "not
run: no data". The numbers are from ALGORITHMS 12.1 to 12.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.papers.fedspa import last_own, own
from bench.papers.measures import accuracy, last
from bench.papers.pflego import last_tested, tested
from bench.papers.table import Found, Lines, Row, Run, Table
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment

METHODS = {
    "FedSPU": "fedspu", "FedSPU + ES": "fedspu-es", "PruneFL": "prunefl", "FjORD": "fjord", "Hermes": "hermes",
    "FedMP": "fedmp", "FedAvg": "fedavg", "FedProx": "fedprox", "SCAFFOLD": "scaffold", "FedDyn": "feddyn",
    "FedDC": "feddc", "FedUmf + FedDC": "fedumf-feddc", "DST": "fedspa", "RSM": "fedspa-rsm", "Ditto": "ditto",
    "Sub-FedAvg": "subfedavg", "Local": "local", "PFLEGO": "pflego", "FedPer": "fedper", "FedRep": "fedrep",
    "FedBABU": "fedbabu",
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """A table of a paper.

    settings  the name of the preset
    more      fields of the experiment that are not the preset's
    paper     the paper's accuracy by method, in percent
    measure   name of the measure of the accuracy
    """

    settings: str
    data: str
    more: Mapping[str, Any]
    paper: Mapping[str, float]
    measure: str


def _last_tested(log_records: Lines) -> Found:
    """Return the accuracy of a round's clients after their training. FedBABU tests after its own adaptation instead."""
    return last_tested(log_records) if any(map(tested, log_records)) else last_own(log_records)


MEASURES = {"own": (last_own, own), "global": (last, accuracy), "tested": (_last_tested, tested)}


def _fedspu(data: str, alpha: str, *paper: float) -> dict[str, Wanted]:
    names = ("PruneFL", "FjORD", "Hermes", "FedMP", "FedSPU", "FedSPU + ES")
    more = {"partition": f"dirichlet:{alpha}"}
    return {f"fedspu-{data}-{alpha}": Wanted("paper", data, more, dict(zip(names, paper, strict=True)), "own")}


def _fedspa(data: str, *paper: float) -> dict[str, Wanted]:
    names = ("DST", "RSM", "Ditto", "FedAvg", "Sub-FedAvg", "Local")
    return {f"fedspa-{data}": Wanted("fedspa", data, {}, dict(zip(names, paper, strict=True)), "own")}


def _pflego(data: str, model: str, degree: str, *paper: float) -> dict[str, Wanted]:
    names = ("FedPer", "FedAvg", "FedProx", "Ditto", "FedRep", "FedBABU", "PFLEGO")
    wanted = Wanted(f"pflego-{degree}", data, {"model": model}, dict(zip(names, paper, strict=True)), "tested")
    return {f"pflego-{data}-{degree}": wanted}


APPENDIX = {"model": "feddyn_mlp", "rounds": 100, "per_round": 15, "lr": 0.1}
APPENDIX_OPTIONS = {"lr_decay": 0.998, "clip": 10.0, "weight_decay": 1e-3, "momentum": 0.0, "mu": 1e-4}
WANTED = {
    **_fedspu("emnist", "0.1", 66.10, 8.37, 68.66, 66.08, 72.89, 73.04),
    **_fedspu("emnist", "1", 68.37, 7.31, 68.60, 68.43, 73.86, 73.73),
    **_fedspu("cifar10", "0.1", 37.25, 24.68, 34.19, 32.50, 50.57, 40.46),
    **_fedspu("cifar10", "1", 33.95, 27.82, 41.85, 35.72, 50.95, 43.47),
    **_fedspu("speech", "0.1", 18.62, 7.39, 27.97, 18.66, 35.14, 31.75),
    **_fedspu("speech", "1", 23.13, 21.12, 35.49, 22.92, 41.64, 38.60),
    "fedumf-mnist": Wanted(
        "fedumf", "mnist", APPENDIX,
        {"FedAvg": 96.90, "FedProx": 96.90, "SCAFFOLD": 96.99, "FedDyn": 97.779, "FedDC": 98.13,
         "FedUmf + FedDC": 98.25}, "global",
    ),
    **_fedspa("emnist", 95.3, 91.9, 95.9, 92.3, 94.9, 87.8),
    **_fedspa("cifar10", 86.6, 82.1, 86.4, 82.0, 78.3, 63.6),
    **_fedspa("cifar100", 59.0, 48.7, 56.8, 49.3, 49.2, 28.8),
    **_pflego("mnist", "pflego_mlp", "high", 97.88, 97.54, 97.50, 98.25, 98.03, 97.19, 98.70),
    **_pflego("mnist", "pflego_mlp", "medium", 92.83, 92.83, 92.62, 94.05, 93.85, 92.46, 95.16),
    **_pflego("mnist", "pflego_mlp", "no", 87.23, 93.12, 93.02, 92.98, 89.28, 93.98, 91.37),
    **_pflego("cifar10", "pflego_cifar", "high", 85.15, 85.18, 85.94, 85.89, 84.03, 87.88, 87.81),
    **_pflego("cifar10", "pflego_cifar", "medium", 61.01, 64.53, 64.07, 64.18, 66.64, 66.64, 74.83),
    **_pflego("cifar10", "pflego_cifar", "no", 37.88, 61.33, 60.00, 60.67, 46.52, 56.48, 63.31),
    **_pflego("emnist", "pflego_mlp", "high", 97.78, 97.29, 97.24, 98.11, 98.20, 97.08, 98.79),
    **_pflego("emnist", "pflego_mlp", "medium", 74.19, 68.82, 54.28, 67.24, 77.62, 60.58, 77.75),
    **_pflego("emnist", "pflego_mlp", "no", 48.12, 69.40, 69.20, 69.11, 65.23, 71.82, 60.79),
}  # fmt: skip
"""The tables by name."""


def tables(quick: bool) -> list[Table]:
    """Return all tables. The quick tables have few clients, who share the digits, and few rounds."""
    return [_table(name, wanted, quick) for name, wanted in WANTED.items()]


def _run(name: str, wanted: Wanted, label: str, quick: bool) -> Run:
    known = preset(wanted.settings, wanted.data)
    options = dict(known["options"]) | (APPENDIX_OPTIONS if wanted.settings == "fedumf" else {})
    every = 1 if wanted.measure == "global" else 25
    settings = {**known, "eval_every": every, "checkpoint_every": 25, **wanted.more}
    settings["options"] = tuple(sorted(options.items()))
    if label == "Ditto" and wanted.settings == "fedspa":
        settings["epochs"] = 2
    experiment = Experiment(methods=(METHODS[label],), data=wanted.data, **settings)
    few: dict[str, Any] = {"data": "digits", "model": "pflego_mlp", "clients": 10, "per_round": 2, "rounds": 2}
    few |= {"partition": "iid", "partition_test": False, "pool": False, "train_share": 0.7, "eval_every": 1}
    few |= {"validation_share": 0.1, "epochs": 2, "batch": 16, "lr": 0.05}
    return Run(f"{name}-{METHODS[label]}-seed1", replace(experiment, **few) if quick else experiment)


def _table(name: str, wanted: Wanted, quick: bool) -> Table:
    measure, curve = MEASURES[wanted.measure]
    runs = {label: _run(name, wanted, label, quick) for label in wanted.paper}
    rows = tuple(Row(label, measure, ((run,),), wanted.paper[label], "%") for label, run in runs.items())
    data = "the digits, quick" if quick else wanted.data
    about = f"{data}, the paper's settings, one seed"
    return Table(f"published-{name}", f"{name}, as published", about, rows, {wanted.data: runs}, curve)
