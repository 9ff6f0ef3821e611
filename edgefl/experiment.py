"""An experiment as plain settings, and the methods that follow from them. No data, no round loop, no printing.

The settings are what `run.json` holds: two runs with equal settings give equal results. Where the data lie and how many
workers train are not among them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from edgefl.algorithms import PRESETS, Algorithm, build, fedumf, pflego
from edgefl.errors import RunError
from edgefl.runs import EXPERIMENT
from edgefl.simulate import Settings

SHARED = ("keep", "per_round", "epochs", "batch", "lr")  # hyper-parameters that every method which has them gets


@dataclass(frozen=True)
class Experiment:
    """What to run. The defaults are the demonstration that `edgefl simulate` gives."""

    methods: tuple[str, ...] = ("fedspu", "fedspu-es", "fedavg", "local")
    data: str = "digits"
    model: str = ""  # empty: the one that fits the shape of the data
    pool: bool = False  # merge the published test part into the clients' data, as the FedSPU paper does
    partition: str = "dirichlet:0.1"
    clients: int = 20
    rounds: int = 60
    per_round: int = 5
    keep: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    epochs: int = 5
    batch: int = 16
    lr: float = 0.05
    seed: int = 1
    deal_test: bool = False  # clients test on their share of the published test part, dealt like their training part
    train_share: float = 0.7
    validation_share: float = 0.1
    values: str = "float32"
    eval_every: int = 10
    checkpoint_every: int = 10
    options: tuple[tuple[str, Any], ...] = ()  # hyper-parameters of single methods, by name

    def __post_init__(self) -> None:
        _check(len(self.methods) > 0, "methods", self.methods, "at least one method")
        _check(len(set(self.methods)) == len(self.methods), "methods", self.methods, "each method once")
        _check(self.clients >= 1, "clients", self.clients, "clients >= 1")
        _check(
            1 <= self.per_round <= self.clients,
            "per_round",
            self.per_round,
            f"1 <= per_round <= {self.clients} clients",
        )
        _check(self.seed >= 0, "seed", self.seed, "seed >= 0")
        _check(0 < self.train_share < 1, "train_share", self.train_share, "0 < train_share < 1")
        _check(0 <= self.validation_share < 1, "validation_share", self.validation_share, "0 <= validation_share < 1")

    def algorithms(self) -> dict[str, Algorithm]:
        """The methods with their hyper-parameters. Raises ValueError naming a value that is out of range."""
        shared = {name: getattr(self, name) for name in SHARED}
        return {name: build(name, {**shared, **dict(self.options)}) for name in self.methods}

    def settings(self, workers: int) -> Settings:
        """How the rounds are carried out."""
        return Settings(self.rounds, self.eval_every, self.checkpoint_every, self.values, workers)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as in run.json."""
        return dict(json.loads(json.dumps(asdict(self))))

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Experiment:
        """The inverse of `to_json`. Raises RunError for a name that is no setting."""
        known = {field.name for field in fields(Experiment)}
        if unknown := sorted(values.keys() - known):
            raise RunError(f"setting {unknown[0]!r} in {EXPERIMENT}; expected one of {', '.join(sorted(known))}")
        options = tuple((name, _frozen(value)) for name, value in values.get("options", ()))
        plain = {name: _frozen(value) for name, value in values.items() if name != "options"}
        return Experiment(**plain, options=options)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value}; expected {expected}")


def defaults(data: str) -> dict[str, Any]:
    """Settings that a data set starts from: the demonstration for the packaged digits, else the paper's federation."""
    if data == "digits":
        return {}
    paper = {"clients": 100, "per_round": 10, "rounds": 100}
    return {**paper, **PRESETS["paper"].get(family(data), {})}


def preset(name: str, data: str) -> dict[str, Any]:
    """A paper's settings for this data set: FedSPU's or those of its released code (ALGORITHMS 1.4 and 1.6), FedUmf's
    main tables with everybody's labels alike (ALGORITHMS 5), PFLEGO's table 1 with high, medium or no personalisation
    (ALGORITHMS 6 and 12.5).
    """
    if name.startswith("pflego-"):
        return _pflego_preset(name.removeprefix("pflego-"), data)
    known = fedumf.PRESETS if name == "fedumf" else PRESETS[name]
    if family(data) not in known:
        raise ValueError(f"preset={name} with data={data}; expected data among {', '.join(known)}")
    if name == "fedumf":
        return {**known[family(data)], "options": tuple(sorted(fedumf.OPTIONS.items()))}
    shared = {"clients": 100, "per_round": 10, "rounds": 500, "epochs": 5, "pool": True, "validation_share": 0.0}
    options: dict[str, Any] = {"es_set": "test"}
    if name == "code":
        options.update(es_ties="stop", first_state="current_global", weight="batches")
    return {**shared, **known[family(data)], "options": tuple(sorted(options.items()))}


def _pflego_preset(degree: str, data: str) -> dict[str, Any]:
    """For FedPer, FedAvg and others a batch is all that a client has, so that epochs are its steps."""
    rates = pflego.RATES.get(family(data), {})
    if degree not in rates or family(data) not in pflego.CLASSES_HELD:
        known = ", ".join(pflego.CLASSES_HELD)
        raise ValueError(f"preset=pflego-{degree} with data={data}; expected data among {known}")
    beta, rho = rates[degree]
    settings: dict[str, Any] = {"clients": 100, "per_round": 20, "rounds": 200, "deal_test": True}
    settings |= {"partition": f"classes:{pflego.CLASSES_HELD[family(data)][degree]}", "validation_share": 0.0}
    settings |= {"epochs": 50, "batch": pflego.WHOLE, "lr": pflego.OTHERS_RATE}
    return {**settings, "options": tuple(sorted({**pflego.TABLES, "beta": beta, "rho": rho}.items()))}


def family(data: str) -> str:
    """The data set of a paper that this name or file belongs to, or the name itself."""
    stem = Path(data).stem.lower()
    known = (*PRESETS["paper"], *fedumf.PRESETS, *pflego.RATES)
    return next((name for name in known if stem.startswith(name)), stem)
