"""The papers' settings by name and data set, in one list. The methods' own defaults are in the files of the methods.

FedSPU's settings come from its section 5 ("paper") and from its released code ("code") (ALGORITHMS 1.4 and 1.6).
FedUmf's settings come from its main tables, with IID labels (ALGORITHMS 5). PFLEGO's settings come from its table 1
with high, medium or no personalisation (ALGORITHMS 6 and 12.5). FedSpa's settings come from its setting A (ALGORITHMS 3
and 12.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHOLE = 10**6  # a batch size that holds all samples of a client
FEDERATION: dict[str, Any] = {"clients": 100, "per_round": 10}  # of FedSPU and FedUmf, and the default for other data
DEMONSTRATIONS: dict[str, dict[str, Any]] = {  # settings for the packaged data sets
    "digits": {},
    "spoken-digits": {"partition": "group", "clients": 6, "per_round": 3, "rounds": 40, "train_share": 0.4},
}
PFLEGO_OPTIONS: dict[str, Any] = {
    "tau": 50, "head_step": "eq3", "server": "adam", "head_init": "uniform", "eval_point": "post_local",
}  # fmt: skip
"""The options behind PFLEGO's tables: Eq. 3, Adam, heads as in the released code, and a test after local training."""


@dataclass(frozen=True)
class Preset:
    """The settings of one paper for one data set: fields of Experiment, and hyper-parameters by name.

    name      name of the preset
    data      beginning of the names of this data set and of its files
    settings  fields of Experiment
    options   hyper-parameters by name
    """

    name: str
    data: str
    settings: dict[str, Any]
    options: dict[str, Any]


def _fedspu(name: str, data: str, lr: float, batch: int) -> Preset:
    settings = {**FEDERATION, "rounds": 500, "epochs": 5, "pool": True, "validation_share": 0.0}
    options = {"es_ties": "stop", "first_state": "current_global", "weight": "batches"} if name == "code" else {}
    return Preset(name, data, {**settings, "lr": lr, "batch": batch}, {**options, "es_set": "test"})


def _fedumf(data: str, rounds: int) -> Preset:
    """Build a preset of FedUmf. The paper trains on the whole training part and tests the global model on the common
    test set alone. Here a client of 600 samples sets one sample apart.
    """
    parts = {"partition": "iid", "train_share": 0.999, "validation_share": 0.0}
    settings = {**FEDERATION, **parts, "rounds": rounds, "epochs": 1, "batch": 50, "lr": 0.01}
    return Preset("fedumf", data, settings, {"momentum": 0.5, "weight_decay": 5e-4, "weight": "uniform"})


def _pflego(degree: str, data: str, classes: int, beta: float, rho: float) -> Preset:
    """Build a preset of tables 6 and 7. Some betas lie outside the grid that the paper says it searched. For FedPer,
    FedAvg and others a batch is all samples of a client, so that epochs are their steps. lr is their rate on most data.

    classes  number of classes that a client holds
    """
    parts = {"partition": f"classes:{classes}", "partition_test": True, "validation_share": 0.0}
    settings = {**parts, "clients": 100, "per_round": 20, "rounds": 200, "epochs": 50, "batch": WHOLE, "lr": 0.007}
    return Preset(f"pflego-{degree}", data, settings, {**PFLEGO_OPTIONS, "beta": beta, "rho": rho})


def _fedspa(data: str, model: str, gamma: float, rounds: int) -> Preset:
    """Build a preset for every method of the table. The paper tests on samples of the published test part in a client's
    class proportions. Here a client sets a fifth of its samples apart. Ditto uses 2 of the 5 epochs for the global
    model (`--epochs 2`).
    """
    parts = {"model": model, "partition": f"dirichlet:{gamma:g}", "train_share": 0.8, "validation_share": 0.0}
    settings = {**FEDERATION, **parts, "rounds": rounds, "epochs": 5, "batch": 128, "lr": 0.1}
    return Preset("fedspa", data, settings, {"lr_decay": 0.998, "weight_decay": 5e-4, "accept_on": "test"})


PRESETS = (
    _fedspu("paper", "emnist", lr=2e-4, batch=16),
    _fedspu("paper", "cifar10", lr=0.1, batch=128),
    _fedspu("paper", "speech", lr=5e-4, batch=16),
    _fedspu("code", "emnist", lr=5e-4, batch=16),
    _fedspu("code", "cifar10", lr=5e-3, batch=128),
    _fedspu("code", "speech", lr=1e-3, batch=16),
    _fedumf("mnist", rounds=150),
    _fedumf("fashion", rounds=150),
    _fedumf("cifar10", rounds=300),
    _pflego("high", "mnist", classes=2, beta=0.189, rho=0.003),
    _pflego("high", "cifar10", classes=2, beta=0.002, rho=0.001),
    _pflego("high", "emnist", classes=2, beta=0.03, rho=0.003),
    _pflego("high", "fashion", classes=2, beta=0.006, rho=0.002),
    _pflego("medium", "mnist", classes=5, beta=0.189, rho=0.003),
    _pflego("medium", "cifar10", classes=5, beta=0.0189, rho=0.003),
    _pflego("medium", "emnist", classes=31, beta=0.03, rho=0.003),
    _pflego("medium", "fashion", classes=5, beta=0.006, rho=0.002),
    _pflego("no", "mnist", classes=10, beta=0.189, rho=0.003),
    _pflego("no", "cifar10", classes=10, beta=0.03, rho=0.003),
    _pflego("no", "emnist", classes=62, beta=0.03, rho=0.003),
    _pflego("no", "fashion", classes=10, beta=0.007, rho=0.003),
    _fedspa("emnist", "lenet5", gamma=0.2, rounds=400),
    _fedspa("cifar10", "vgg11", gamma=0.5, rounds=1000),
    _fedspa("cifar100", "resnet18", gamma=0.2, rounds=1000),
)
HEADS: dict[str, Any] = {"server": "adam", "beta": 0.02, "rho": 0.003}
STARTS = {"pflego": HEADS, "fedrecon": HEADS}
"""The default options of a run without a preset, by method.

PFLEGO's exact gradient descent hardly moves the body at the learning rates of PFLEGO's tables. docs/training.md has the
results of both on three data sets.
"""
NAMES = tuple(dict.fromkeys(each.name for each in PRESETS))


def preset(name: str, data: str) -> dict[str, Any]:
    """Return a paper's settings for this data set, as fields of Experiment. Raises ValueError without such settings."""
    found = _of(name, data)
    if found is None:
        known = ", ".join(each.data for each in PRESETS if each.name == name)
        raise ValueError(f"preset={name} with data={data}; expected data among {known}")
    return {**found.settings, "options": tuple(sorted(found.options.items()))}


def is_of_paper(data: str) -> bool:
    """Return whether the data set, or the file, is named like a data set that a paper has settings for."""
    return _of("paper", data) is not None


def defaults(data: str) -> dict[str, Any]:
    """Return the default settings of a data set: a demonstration for a packaged one, or else the paper's federation."""
    if data in DEMONSTRATIONS:
        return DEMONSTRATIONS[data]
    found = _of("paper", data)
    rates = {} if found is None else {name: found.settings[name] for name in ("lr", "batch")}
    return {**FEDERATION, "rounds": 100, **rates}


def begun(methods: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a new run, with the starting values of these methods. They can differ from the defaults in
    the methods' files, which are the defaults of the papers and of older runs. run.json holds the result.
    """
    starts = [each for method in methods for each in STARTS.get(method, {}).items()]
    return {**dict(starts), **options}


def _of(name: str, data: str) -> Preset | None:
    """Return the preset of that name for this data set or file. The longest matching beginning decides."""
    stem = Path(data).stem.lower()
    fitting = [each for each in PRESETS if each.name == name and stem.startswith(each.data)]
    return max(fitting, key=lambda each: len(each.data), default=None)
