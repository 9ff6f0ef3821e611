"""A run as an object, simulated or served, which reads the run's directory whenever the program asks. It runs nothing.

run.methods["fedspu"].seeds[1].clients[3].model
run.clients[3].model                              the client's model of the first method and its first seed
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from warnings import warn

from edgefl.errors import RunError, former_name
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
from edgefl.study.round_records import RoundRecord, records
from edgefl.study.run_results import RunResults
from edgefl.study.simulation.committed_rounds import read_committed
from edgefl.study.summary import Summary, kind_of, summarise
from edgefl.study.trained_model import TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Run(RunResults):
    """A run, simulated or served, which `edgefl.simulate` and `edgefl.open_run` return. RunResults has its tables, its
    JSON and its report.

    directory   directory of the run
    experiment  settings of the run
    is_served   whether the clients were devices of `edgefl serve` and not a simulation
    methods     the methods of the comparison by label, in the order of the comparison
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
        """The first method of the run."""
        return next(iter(self.methods.values()))

    @property
    def clients(self) -> Sequence[Client]:
        """The clients by id, as the first method with the first seed has left them."""
        return self.method.clients

    @property
    def metrics(self) -> list[RoundRecord]:
        """A plain record of every round of every method and seed (study/round_records.py)."""
        return [each for method in self.methods.values() for one in method.seeds.values() for each in one.metrics]

    @property
    def summaries(self) -> dict[int, list[Summary]]:
        """The figures of the methods, in order, by seed. Raises RunError if a method has no evaluated round yet."""
        seeds = [one.seed for one in self.experiment.each_seed()]
        return {seed: [method.seeds[seed].summary for method in self.methods.values()] for seed in seeds}

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | Sequence[Axes] | None = None,
        panels: str | Sequence[str] | None = None,
        size: tuple[float, float] | None = None,
        theme: Literal["light", "dark"] | None = None,
        seeds: bool = False,
    ) -> Any:
        """Draw accuracy over rounds, bytes and time, the clients, the tiers and the loss (study/picture_panels.py).
        Return the path of the file, the value of `ax`, or without both a Figure of matplotlib.

        path    name of a PNG, SVG or PDF file
        ax      axes of a figure of your own, one for each panel. Without `panels` a single panel is drawn: accuracy
                over rounds
        panels  name or names of panels: rounds, bytes, seconds, work, virtual-seconds, joules, clients, tiers,
                tier-bytes, tier-memory, loss. None draws every panel that the run has figures for
        size    width and height of the picture in inches
        theme   "light" or "dark". None takes dark for a file whose name ends in "-dark", and light otherwise
        seeds   whether every seed gets a thin line
        Raises  ValueError without matplotlib, or for a file, a panel, a size or a theme that cannot be drawn
        """
        from edgefl.study.picture import draw  # the import of matplotlib takes a while

        return draw(self.summaries, path, ax, panels=panels, size=size, theme=theme, seeds=seeds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that say how the reader understood the user's data, such as "y: 3 classes, labels 1..3"."""
        return read_meaning(self.directory).notes

    @cached_property
    def tiers(self) -> Tiers:
        """The capacity tiers of the clients. Raises DataError if the data of the run cannot be read."""
        federation = self.federation
        return tiers_of(self.experiment, federation.graph, federation.data.loss)

    @cached_property
    def federation(self) -> Federation:
        """The model, the data and the samples of each client, for the first seed. Raises DataError if the data of the
        run cannot be read.
        """
        one, model = self.experiment.each_seed()[0], kept(self.directory, self.experiment.model)
        return assemble(one, self._data_dir, model, data_of_run(self.directory, one, self._data_dir))

    def model_of(self, trial: Trial, client: int | None) -> TrainedModel:
        """The model of all clients where `client` is None, or the model of one client. Raises RunError if the trial has
        no such model.
        """
        seed = None if self.is_served else trial.seed
        found = find(ModelSource(self.directory, client, trial.method, self._data_dir, seed))
        scaling = lambda: (self.federation.data.scale, self.federation.data.shift)  # noqa: E731
        axes, names = self.experiment.axes, found.class_names
        return TrainedModel(found.model, found.what, found.classes, scaling, axes, names)

    def _trials(self) -> list[Trial]:
        if not self.is_served:
            return trials(self.experiment, self.directory)
        one = self.experiment
        return [Trial(one.methods[0], one.seed, one.rounds, self.directory, True)]


class Method:
    """A method of a run.

    name   label of the method
    seeds  result of the method for each seed
    """

    def __init__(self, run: Run, found: Sequence[Trial]) -> None:
        self.name = found[0].method
        self.seeds: Mapping[int, Seeded] = {each.seed: Seeded(run, each) for each in found}

    def __repr__(self) -> str:
        return f"<Method {self.name}: seeds {', '.join(map(str, self.seeds))}>"

    @property
    def accuracy(self) -> float | None:
        """Mean over the seeds of the clients' mean accuracy, or None if the task has no right and wrong answers."""
        return _mean([each.accuracy for each in self.seeds.values()])

    @property
    def loss(self) -> float | None:
        """Mean over the seeds of the clients' mean loss, or None if the loss of a seed is not a finite number."""
        return _mean([each.loss for each in self.seeds.values()])

    @property
    def payload_bytes(self) -> float:
        """Mean over the seeds of the payload bytes that were sent in both directions."""
        return sum(each.payload_bytes for each in self.seeds.values()) / len(self.seeds)

    @property
    def clients(self) -> Sequence[Client]:
        """The clients of the first seed, by id."""
        return self._first.clients

    @property
    def model(self) -> TrainedModel:
        """The model of all clients after the first seed. Raises RunError if the method has no model of all clients."""
        return self._first.model

    @property
    def _first(self) -> Seeded:
        return next(iter(self.seeds.values()))


class Seeded:
    """A method of a run with one seed.

    method     label of the method
    seed       seed of the run
    directory  directory of the method's files for this seed
    """

    def __init__(self, run: Run, trial: Trial) -> None:
        self.method, self.seed, self.directory = trial.method, trial.seed, trial.path
        self._run, self._trial = run, trial

    @property
    def log_records(self) -> list[dict[str, Any]]:
        """The metrics of every round so far, with the activity of every client (rounds/round_metrics.py)."""
        return log_records_of(self.directory)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The former name of `log_records`."""
        warn(former_name("lines", "log_records"), FutureWarning, stacklevel=2)
        return self.log_records

    @property
    def metrics(self) -> list[RoundRecord]:
        """A plain record of every round so far (study/round_records.py)."""
        return list(records(self.method, self.seed, self.log_records))

    @property
    def summary(self) -> Summary:
        """The figures up to the last evaluation. Raises RunError if no round has been evaluated yet."""
        served = self._run.is_served
        state = run_history.final_state(self.directory) if served else read_committed(self.directory).state
        return summarise(self.method, self.log_records, self._run.tiers, state.values)

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """The last evaluation of the models that the method is judged by: means, and figures by client. Raises RunError
        if no round has been evaluated yet.
        """
        found = [log_record["evaluation"] for log_record in self.log_records if log_record.get("evaluation")]
        if not found:
            raise RunError(f"{self.directory} has no evaluated round yet; expected at least one")
        chosen: Mapping[str, Any] = found[-1][kind_of(found[-1])]
        return chosen

    @property
    def accuracy(self) -> float | None:
        """Unweighted mean of the clients' accuracies, each on the client's own test samples, or None if the task has no
        right and wrong answers.
        """
        return self.evaluation.get("accuracy")

    @property
    def loss(self) -> float | None:
        """Unweighted mean of the clients' losses, each on the client's own test samples, or None if the mean is not a
        finite number.
        """
        return self.evaluation.get("loss")

    @property
    def payload_bytes(self) -> int:
        """The payload bytes that were sent in both directions."""
        return sum(sum(log_record["down"].values()) + sum(log_record["up"].values()) for log_record in self.log_records)

    @property
    def clients(self) -> Sequence[Client]:
        """The clients, by id."""
        return tuple(Client(self._run, self._trial, self, client) for client in range(self._run.experiment.clients))

    @property
    def model(self) -> TrainedModel:
        """The model of all clients. Raises RunError if the method has no model of all clients."""
        return self._run.model_of(self._trial, None)


class Client:
    """A client as one method with one seed has left it.

    id    number of the client, from 0
    keep  capacity tier of the client: the share of neurons that the client trains
    """

    def __init__(self, run: Run, trial: Trial, seeded: Seeded, client: int) -> None:
        self.id, self._run, self._trial, self._seeded = client, run, trial, seeded
        self.keep: float = tier(run.experiment.keep, client, run.experiment.clients)

    def __repr__(self) -> str:
        return f"<Client {self.id} of {self._trial}>"

    @property
    def model(self) -> TrainedModel:
        """The model of the client, or the common model where the method adapts a common model to its clients. Raises
        RunError if the client has no model.
        """
        return self._run.model_of(self._trial, self.id)

    @property
    def test_samples(self) -> int:
        """The number of the client's own test samples, or 0 if the client did not answer at the last evaluation."""
        return int(self._seeded.evaluation["examples"][self.id] or 0)

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the client's own test samples at the last evaluation. It is None if the client did not answer, or
        if the task has no right and wrong answers.
        """
        found = self._seeded.evaluation
        if "correct" not in found or not self.test_samples:
            return None
        return float(found["correct"][self.id] / (self.test_samples * found.get("decisions", 1)))

    @property
    def loss(self) -> float | None:
        """Mean loss on the client's own test samples at the last evaluation. It is None if the client did not answer,
        or if the loss is not a finite number.
        """
        total = self._seeded.evaluation["loss_sum"][self.id]
        return None if total is None or not self.test_samples else float(total / self.test_samples)

    @property
    def rounds(self) -> list[int]:
        """The rounds in which the server aggregated the client's reply."""
        taken = ("on", "stopped")
        return [
            log_record["round"]
            for log_record in self._seeded.log_records
            for each in log_record.get("clients", ())
            if each["client"] == self.id and each["status"] in taken
        ]


def open_run(directory: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None) -> Run:
    """Open the run in a directory that `simulate`, `edgefl simulate` or `edgefl serve` has made, also while the run
    goes on.

    directory  directory of the run
    data_dir   directory of the files of the data set, for a run that does not keep its data
    Raises     RunError if the directory is not the directory of a run
    """
    return Run(directory, data_dir)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
