"""A run as an object, simulated or served: read from its directory whenever something is asked of it. It runs nothing.

run.methods["fedspu"].seeds[1].clients[3].model
run.clients[3].model                              the same, of the first method and its first seed
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from warnings import warn

from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.data_meaning import read_meaning
from edgefl.experiment.federation import Federation
from edgefl.experiment.model_file import kept
from edgefl.experiment.run_data import data_of_run
from edgefl.experiment.run_layout import Trial, trials
from edgefl.experiment.settings import Experiment
from edgefl.methods.sampling import tier
from edgefl.server import run_history
from edgefl.study.capacity_tiers import Tiers, tiers_of
from edgefl.study.export.trained_models import ModelSource, find
from edgefl.study.metric_records import log_records_of
from edgefl.study.round_records import records
from edgefl.study.run_results import RunResults
from edgefl.study.simulation.committed_rounds import read_committed
from edgefl.study.summary import Summary, kind_of, summarise
from edgefl.study.trained_model import TrainedModel


class Run(RunResults):
    """What `edgefl.simulate` and `edgefl.open_run` give. Its tables, its JSON and its report are of RunResults.

    directory   where it lies
    experiment  its settings
    is_served   whether it had devices, and not a simulation
    methods     of its comparison by label, in order
    """

    def __init__(self, directory: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None) -> None:
        self.directory = Path(directory)
        self.experiment: Experiment = Experiment.of_run(self.directory)
        self.is_served: bool = run_history.is_served(self.directory)
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        by_label: dict[str, list[Trial]] = {}
        for each in self._trials():
            by_label.setdefault(each.method, []).append(each)
        self.methods: Mapping[str, Method] = {name: Method(self, found) for name, found in by_label.items()}

    def __repr__(self) -> str:
        return f"<Run {self.directory}: {', '.join(self.methods)}>"

    @property
    def method(self) -> Method:
        """The first method, or the only one."""
        return next(iter(self.methods.values()))

    @property
    def clients(self) -> Sequence[Client]:
        """By id, as the first method with its first seed has left them."""
        return self.method.clients

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A plain record of every round of every method and seed (study/round_records.py)."""
        return [each for method in self.methods.values() for one in method.seeds.values() for each in one.metrics]

    @property
    def summaries(self) -> dict[int, list[Summary]]:
        """The figures by seed, of methods in order. Raises RunError if one of them has no evaluated round yet."""
        seeds = [one.seed for one in self.experiment.each_seed()]
        return {seed: [method.seeds[seed].summary for method in self.methods.values()] for seed in seeds}

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Any = None,
        panels: str | Sequence[str] | None = None,
        size: tuple[float, float] | None = None,
        theme: Literal["light", "dark"] | None = None,
        seeds: bool = False,
    ) -> Any:
        """Draws accuracy over rounds, bytes and time, the clients, the tiers and the loss (study/picture_panels.py).
        Gives the path of the file; without a path a Figure of matplotlib; of `ax` what was given.

        path    of a PNG, SVG or PDF
        ax      axes of a figure of your own, one for each panel; without `panels` one, for accuracy over rounds
        panels  names, or one: rounds, bytes, seconds, work, virtual-seconds, joules, clients, tiers, tier-bytes,
                tier-memory, loss; None: all that the run has figures for
        size    width and height in inches
        theme   None: dark for a file whose name ends in "-dark", else light
        seeds   whether every seed has a thin line of its own
        Raises  ValueError without matplotlib, or for a file, a panel, a size or a theme that cannot be.
        """
        from edgefl.study.picture import draw  # matplotlib takes a while

        return draw(self.summaries, path, ax, panels=panels, size=size, theme=theme, seeds=seeds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that say what of one's own data was taken for what, as "y: 3 classes, labels 1..3"."""
        return read_meaning(self.directory).notes

    @cached_property
    def tiers(self) -> Tiers:
        """The clients' capacity tiers. Raises DataError if the run's data cannot be had."""
        federation = self.federation
        return tiers_of(self.experiment, federation.graph, federation.data.loss)

    @cached_property
    def federation(self) -> Federation:
        """Model, data and who owns what, with the first seed. Raises DataError if the run's data cannot be had."""
        one, model = self.experiment.each_seed()[0], kept(self.directory, self.experiment.model)
        return assemble(one, self._data_dir, model, data_of_run(self.directory, one, self._data_dir))

    def model_of(self, trial: Trial, client: int | None) -> TrainedModel:
        """The model of all clients, or of one. Raises RunError if there is none."""
        seed = None if self.is_served else trial.seed
        found = find(ModelSource(self.directory, client, trial.method, self._data_dir, seed))
        scaling = lambda: (self.federation.data.scale, self.federation.data.shift)  # noqa: E731
        return TrainedModel(found.model, found.what, found.classes, scaling, self.experiment.axes)

    def _trials(self) -> list[Trial]:
        if not self.is_served:
            return trials(self.experiment, self.directory)
        one = self.experiment
        return [Trial(one.methods[0], one.seed, one.rounds, self.directory, True)]


class Method:
    """A method of a run.

    name   its label
    seeds  what it came to with each seed
    """

    def __init__(self, run: Run, found: Sequence[Trial]) -> None:
        self.name = found[0].method
        self.seeds: Mapping[int, Seeded] = {each.seed: Seeded(run, each) for each in found}

    def __repr__(self) -> str:
        return f"<Method {self.name}: seeds {', '.join(map(str, self.seeds))}>"

    @property
    def accuracy(self) -> float | None:
        """Mean over seeds of the clients' mean accuracy; None where answers are not right or wrong."""
        return _mean([each.accuracy for each in self.seeds.values()])

    @property
    def loss(self) -> float | None:
        """The same of the loss; None where one is no finite number."""
        return _mean([each.loss for each in self.seeds.values()])

    @property
    def payload_bytes(self) -> float:
        """Mean over seeds of all that was sent, both directions."""
        return sum(each.payload_bytes for each in self.seeds.values()) / len(self.seeds)

    @property
    def clients(self) -> Sequence[Client]:
        """Of the first seed, by id."""
        return self._first.clients

    @property
    def model(self) -> TrainedModel:
        """The model of all clients, of the first seed. Raises RunError if the method has none."""
        return self._first.model

    @property
    def _first(self) -> Seeded:
        return next(iter(self.seeds.values()))


class Seeded:
    """A method of a run with one seed.

    method, seed  whose
    directory     where its files lie
    """

    def __init__(self, run: Run, trial: Trial) -> None:
        self.method, self.seed, self.directory = trial.method, trial.seed, trial.path
        self._run, self._trial = run, trial

    @property
    def log_records(self) -> list[dict[str, Any]]:
        """The metrics of every round so far, with what every client did (rounds/round_metrics.py)."""
        return log_records_of(self.directory)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """`log_records` under its name of before."""
        warn("lines is called log_records now", FutureWarning, stacklevel=2)
        return self.log_records

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A plain record of every round so far (study/round_records.py)."""
        return list(records(self.method, self.seed, self.log_records))

    @property
    def summary(self) -> Summary:
        """Its figures up to its last evaluation. Raises RunError if there is none yet."""
        served = self._run.is_served
        state = run_history.final_state(self.directory) if served else read_committed(self.directory).state
        return summarise(self.method, self.log_records, self._run.tiers, state.values)

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """The last one, of the models that stand for the method: means, and by client. Raises RunError without one."""
        found = [log_record["evaluation"] for log_record in self.log_records if log_record.get("evaluation")]
        if not found:
            raise RunError(f"{self.directory} has no evaluated round yet; expected at least one")
        chosen: Mapping[str, Any] = found[-1][kind_of(found[-1])]
        return chosen

    @property
    def accuracy(self) -> float | None:
        """Unweighted mean over clients, on their own test samples; None where answers are not right or wrong."""
        return self.evaluation.get("accuracy")

    @property
    def loss(self) -> float | None:
        """The same of the loss; None where it is no finite number."""
        return self.evaluation.get("loss")

    @property
    def payload_bytes(self) -> int:
        """All that was sent, both directions."""
        return sum(sum(log_record["down"].values()) + sum(log_record["up"].values()) for log_record in self.log_records)

    @property
    def clients(self) -> Sequence[Client]:
        """By id."""
        return tuple(Client(self._run, self._trial, self, client) for client in range(self._run.experiment.clients))

    @property
    def model(self) -> TrainedModel:
        """The model of all clients. Raises RunError if the method has none."""
        return self._run.model_of(self._trial, None)


class Client:
    """A client, as one method with one seed has left it.

    id        from 0
    keep      its capacity tier: the share of neurons that it trains
    """

    def __init__(self, run: Run, trial: Trial, seeded: Seeded, client: int) -> None:
        self.id, self._run, self._trial, self._seeded = client, run, trial, seeded
        self.keep: float = tier(run.experiment.keep, client, run.experiment.clients)

    def __repr__(self) -> str:
        return f"<Client {self.id} of {self._trial}>"

    @property
    def model(self) -> TrainedModel:
        """Its own model; of a method that adapts a common one, that. Raises RunError where there is none."""
        return self._run.model_of(self._trial, self.id)

    @property
    def test_samples(self) -> int:
        """Of its own; 0 if it did not answer at the last evaluation."""
        return int(self._seeded.evaluation["examples"][self.id] or 0)

    @property
    def accuracy(self) -> float | None:
        """On its own test samples at the last evaluation; None if it did not answer, or nothing is right or wrong."""
        found = self._seeded.evaluation
        if "correct" not in found or not self.test_samples:
            return None
        return float(found["correct"][self.id] / (self.test_samples * found.get("decisions", 1)))

    @property
    def loss(self) -> float | None:
        """The same of the mean loss; None if it did not answer, or where it is no finite number."""
        total = self._seeded.evaluation["loss_sum"][self.id]
        return None if total is None or not self.test_samples else float(total / self.test_samples)

    @property
    def rounds(self) -> list[int]:
        """The rounds in which its reply was counted."""
        taken = ("on", "stopped")
        return [
            log_record["round"]
            for log_record in self._seeded.log_records
            for each in log_record.get("clients", ())
            if each["client"] == self.id and each["status"] in taken
        ]


def open_run(directory: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None) -> Run:
    """The run in a directory that `simulate`, `edgefl simulate` or `edgefl serve` has made, also while it runs.

    data_dir  directory of the data set's files, where the run does not keep its data
    Raises    RunError if there is none.
    """
    return Run(directory, data_dir)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
