"""An experiment as plain settings, and the methods that follow from them. It reads no data and runs no rounds.

`run.json` holds the settings: two runs with equal settings give equal results. The path of the data and the number of
workers are not settings.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.experiment.asynchronous_settings import asynchronous_rounds
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.split import training_samples
from edgefl.experiment.device_models.device_assignment import fleet_of
from edgefl.experiment.evaluation_rounds import default_interval
from edgefl.experiment.experiment_fields import SPLITS as SPLITS
from edgefl.experiment.experiment_fields import ExperimentFields
from edgefl.experiment.round_settings import Settings as Settings
from edgefl.experiment.run_json import EXPERIMENT, read_experiment
from edgefl.experiment.setting_description import description_of
from edgefl.experiment.tuned_values import choices
from edgefl.experiment.user_methods import admit
from edgefl.learning.losses import Loss
from edgefl.methods import Algorithm, build
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.method_label import Variant
from edgefl.methods.rounds import asynchronous
from edgefl.methods.rounds.asynchronous import StalenessFactor
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.round_closing import AggregationSettings
from edgefl.models.neurons.trained_part import patterns

SHARED = (
    "keep",
    "per_round",
    "epochs",
    "batch",
    "lr",
    "rounds",
)  # hyper-parameters that methods share
UNSAID: tuple[tuple[str, Any], ...] = tuple(  # values that run.json leaves out, as JSON has them
    (each.name, list(each.default) if isinstance(each.default, tuple) else each.default)
    for each in fields(ExperimentFields)
    if description_of(each).is_left_out
)
STORED: dict[str, str] = {"aggregation": "fold", "partition_test": "deal_test"}  # run.json keeps former names
FORMER = {before: now for now, before in STORED.items()}
PAIRS = ("options", "tune")  # settings that map names to values
OF_NONE = {"max_examples": 100, "eval_every": 10}  # settings that are None by default, with an example of their kind
KINDS = {tuple: "a list", bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Experiment(ExperimentFields):
    """An experiment: the settings of docs/settings.md, checked, and what follows from them.

    The default values are the demonstration that `edgefl simulate` gives. Raises ValueError that names the value and
    what was expected.
    """

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
        _check(self.tune_rounds >= 0, "tune_rounds", self.tune_rounds, "tune_rounds >= 0")
        for name, tried in self.tune:
            _check(len(set(tried)) == len(tried) > 0, f"tune {name}", tried, "at least one value, and each value once")
        _check(self.held_out >= 0, "held_out", self.held_out, "held_out >= 0")
        _check(self.refresh >= 0, "refresh", self.refresh, "refresh >= 0")
        _check(self.seed >= 0, "seed", self.seed, "seed >= 0")
        _check(self.seeds >= 1, "seeds", self.seeds, "seeds >= 1")
        _check(self.split in SPLITS, "split", self.split, " or ".join(SPLITS))
        _check(self.fewest >= 0, "fewest", self.fewest, "fewest >= 0")
        _check(0 < self.train_share < 1, "train_share", self.train_share, "0 < train_share < 1")
        _check(0 <= self.validation_share < 1, "validation_share", self.validation_share, "0 <= validation_share < 1")
        _check(
            self.max_examples is None or self.max_examples >= 1, "max_examples", self.max_examples, "max_examples >= 1"
        )
        Loss.parse(self.loss) if self.loss else None
        patterns(self.train) if self.train else ()
        if self.devices:
            fleet_of(self.devices).assigned(self.clients)
        is_limit = 0 <= self.deadline_s < math.inf
        _check(is_limit, "deadline_s", self.deadline_s, "0 <= deadline_s, a number of seconds, or 0 for no deadline")
        _check(bool(self.devices) or not self.deadline_s, "deadline_s", self.deadline_s, "devices= as well")
        asynchronous_rounds(self)
        fewest = self.aggregation_settings().aggregation.fewest
        _check(
            fewest <= self.per_round,
            "per_round",
            self.per_round,
            f"per_round >= {fewest} with aggregation={self.aggregation}",
        )

    @property
    def owners(self) -> int:
        """Return the number of clients that own samples, with the clients that never take part."""
        return self.clients + self.held_out

    @property
    def eval_interval(self) -> int:
        """Return the number of rounds from one evaluation to the next."""
        return default_interval(self.rounds) if self.eval_every is None else self.eval_every

    @property
    def evaluates_first(self) -> bool:
        """Return whether the models are evaluated after round 1, whatever the interval is."""
        return self.evaluate_first or self.eval_every is None

    def with_evaluation_rounds(self) -> Experiment:
        """Return the experiment with the number of its evaluation interval written out, so that more rounds do not
        change it.
        """
        return replace(self, eval_every=self.eval_interval, evaluate_first=self.evaluates_first)

    def how_to_read(self) -> Reading:
        """Return the user's choices for reading a file of their own. Raises DataError that names a value which is not
        allowed.
        """
        return Reading(self.label, self.group, self.time, self.drop, self.axes, self.image_size, self.missing)

    def algorithms(self) -> dict[str, Algorithm]:
        """Return the methods by label, with their hyper-parameters. Methods of the user's own are registered
        (user_methods.py).

        Raises  ValueError that names a value out of range, or an unknown method
        """
        for label in self.methods:
            admit(Variant.of(label).method)
        shared = {name: getattr(self, name) for name in SHARED}
        tuned = {label: dict(chosen) for label, chosen in self.tuned}
        methods = {name: build(name, {**shared, **dict(self.options), **tuned.get(name, {})}) for name in self.methods}
        for name, method in methods.items():
            if self.buffer and (why := asynchronous.problem(method)):
                raise ValueError(f"buffer={self.buffer}: {why}")
            if self.refresh and not method.can_refresh:
                raise ValueError(f"refresh={self.refresh} with {name}; expected a method that defines a refresh")
            if self.diagnose and not method.trains_parts:
                raise ValueError(
                    f"diagnose with {name}, whose clients train the whole model; expected methods that train neurons "
                    "or coordinates at a mask, such as fedspu or fedspa"
                )
            if self.held_out and not method.has_newcomers:
                raise ValueError(
                    f"held_out={self.held_out} with {name}, which has no model for a client that never took part; "
                    "expected a method with a model, body or one-layer head of all clients, such as fedavg or fedrep"
                )
        return methods

    def check_served(self) -> None:
        """Raise ValueError for a setting that only a simulation can have."""
        if len(self.methods) != 1:
            raise ValueError(f"methods {', '.join(self.methods)}; expected one, as a server runs one method")
        for name in ("refresh", "train_scores", "held_out", "diagnose"):
            if asked := getattr(self, name):
                value = "" if asked is True else f"={asked}"
                raise ValueError(f"{name}{value} with a server; expected it in a simulation only")
        if self.devices:
            raise ValueError("devices with a server; expected modelled devices in a simulation only")
        if self.tune:
            raise ValueError(f"tune={self.tune[0][0]} with a server; expected a simulation, which tries the values")

    def settings(self, workers: int) -> Settings:
        """Return the settings of the round loop, with `workers` clients trained at the same time."""
        return Settings(
            self.rounds,
            self.eval_interval,
            self.checkpoint_every,
            self.values,
            workers,
            aggregation_settings=self.aggregation_settings(),
            refresh=self.refresh,
            train_scores=self.train_scores,
            fleet=fleet_of(self.devices) if self.devices else None,
            deadline_s=self.deadline_s,
            evaluate_first=self.evaluates_first,
            diagnose=self.diagnose,
            asynchronous=asynchronous_rounds(self),
        )

    def aggregation_settings(self, largest: int | None = None) -> AggregationSettings:
        """Return the settings of the aggregation. `largest` is the largest number of examples that counts if
        `max_examples` is None.
        """
        most = largest if self.max_examples is None else self.max_examples
        rule, bound = AggregationRule.parse(self.aggregation), UpdateNormBound.parse(self.bound)
        return AggregationSettings(rule, bound, most, StalenessFactor.parse(self.staleness))

    def training_samples(self, declared: Sequence[int]) -> int:
        """Return the number of training samples of a client that declares these numbers (wire: Enrol.examples)."""
        return training_samples(declared, self.train_share, self.validation_share)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, as run.json has them. A setting that older runs do not know is left
        out unless it was asked for.
        """
        values: dict[str, Any] = json.loads(json.dumps(asdict(replace(self.with_evaluation_rounds(), tuned=()))))
        del values["tuned"]
        return {STORED.get(name, name): value for name, value in values.items() if (name, value) not in UNSAID}

    def each_seed(self) -> tuple[Experiment, ...]:
        """Return one experiment for each seed of this experiment."""
        return tuple(replace(self, seed=self.seed + i, seeds=1) for i in range(self.seeds))

    @staticmethod
    def of_run(path: Path) -> Experiment:
        """Read the experiment of the run in this directory, with its tuned values if the tuning is done. Raises
        RunError that names the file.
        """
        values, tuned = read_experiment(path), choices(path)
        try:
            return replace(Experiment.from_json(values), tuned=tuned)
        except RunError as error:
            raise RunError(f"{path / EXPERIMENT} has {error}") from None

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Experiment:
        """Make the experiment from the values of `to_json`. Raises RunError for an unknown setting or for a value that
        the setting cannot have.
        """
        values = {FORMER.get(name, name): value for name, value in values.items()}
        known = {each.name for each in fields(Experiment)} - {"tuned"}
        if unknown := sorted(values.keys() - known):
            raise RunError(f"setting {unknown[0]!r}; expected one of {', '.join(sorted(known))}")
        for name, value in values.items():
            check_kind(name, value)
        for name, tried in values.get("tune", ()):
            if not isinstance(name, str) or not isinstance(tried, list):
                raise RunError(f"tune={[name, tried]!r}; expected an option and a list of its values")
        pairs = {name: tuple((key, _frozen(each)) for key, each in values.get(name, ())) for name in PAIRS}
        plain = {name: _frozen(value) for name, value in values.items() if name not in PAIRS}
        try:
            return Experiment(**{**plain, **pairs})
        except ValueError as error:
            raise RunError(str(error)) from None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_kind(name: str, value: Any) -> None:
    """Raise RunError if JSON has another kind of value than the setting."""
    default = getattr(Experiment, name)
    if name in PAIRS:
        fits = isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value)
    elif isinstance(default, tuple):
        fits = isinstance(value, list) and all(is_like(each, default[0] if default else "") for each in value)
    else:
        fits = is_like(value, OF_NONE[name]) or value is None if default is None else is_like(value, default)
    if not fits:
        like = OF_NONE.get(name, default)
        raise RunError(f"{name}={value!r}; expected {KINDS[type(like)]}, as {like!r}")


def is_like(value: Any, default: Any) -> bool:
    """Return whether a value has the type of the default. A whole number may stand for a number with a fraction."""
    return type(value) is type(default) or (type(value) is int and type(default) is float)


def _check(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise ValueError(f"{name}={value}; expected {expected}")
