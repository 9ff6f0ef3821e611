"""Callbacks of `edgefl.simulate` that log rounds in TensorBoard, MLflow, wandb or a module with wandb's API.

    edgefl.simulate("fedspu,fedavg", on_round=TensorBoard("logs"))

Every method with every seed is one run of the tracker. The run gets the numbers of each round's record
(study/round_records.py) by their names, with the round as step. Each package is an extra, which is imported when its
tracker is made. Trackers measure nothing themselves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgefl.methods.method_label import folder

COORDINATES = ("seed", "round")  # numbers of a record that are not measurements


class Tracker:
    """The base class of the trackers.

    It opens one run of the tracker after the other, in the order of methods and seeds.
    """

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._key: tuple[str, int] | None = None
        self._run: Any = None

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Take the settings of the run, as run.json has them."""
        self._settings = dict(settings)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Log the record of a round that has closed."""
        key = record["method"], record["seed"]
        if key != self._key:
            self.end()
            self._key, self._run = key, self._open(*key)
        self._log(numbers(record), record["round"])

    def end(self) -> None:
        """Close the open run of the tracker, if there is one."""
        if self._key is not None:
            self._key = None
            self._close()

    def _open(self, method: str, seed: int) -> Any:
        raise NotImplementedError

    def _log(self, values: dict[str, float], round: int) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class TensorBoard(Tracker):
    """Write event files below a directory, DIRECTORY/METHOD/seed-SEED, for `tensorboard --logdir DIRECTORY`.

    directory  folder of the event files
    Raises     ModuleNotFoundError without the package tensorboard
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__()
        from tensorboard.summary import Writer

        self._directory, self._writer = Path(directory), Writer

    def _open(self, method: str, seed: int) -> Any:
        return self._writer(str(self._directory / folder(method) / f"seed-{seed}"))

    def _log(self, values: dict[str, float], round: int) -> None:
        for name, value in values.items():
            self._run.add_scalar(name, value, step=round)
        self._run.flush()

    def _close(self) -> None:
        self._run.close()


class MLflow(Tracker):
    """Log the runs in an MLflow experiment.

    experiment    name of the experiment, which is made if it does not exist
    tracking_uri  place where MLflow keeps the runs. None: the place that MLflow is set up for
    Raises        ModuleNotFoundError without the package mlflow or mlflow-skinny
    """

    def __init__(self, experiment: str = "edgefl", tracking_uri: str | None = None) -> None:
        super().__init__()
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri)
        found = self._client.get_experiment_by_name(experiment)
        self._experiment = self._client.create_experiment(experiment) if found is None else found.experiment_id

    def _open(self, method: str, seed: int) -> Any:
        run = self._client.create_run(self._experiment, run_name=f"{method} seed {seed}").info.run_id
        for name, value in _of_run(self._settings, method, seed).items():
            self._client.log_param(run, name, value)
        return run

    def _log(self, values: dict[str, float], round: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=round)

    def _close(self) -> None:
        self._client.set_terminated(self._run)


class WandB(Tracker):
    """Log the runs in Weights & Biases.

    module   module with a function `init`, whose runs have `log(values, step=...)` and `finish()`. None: the package
             wandb
    options  further arguments of `init`, such as project="..." or mode="offline"
    Raises   ModuleNotFoundError without the package wandb, unless another module is given
    """

    def __init__(self, module: Any = None, **options: Any) -> None:
        super().__init__()
        if module is None:
            import wandb

            module = wandb
        self._module, self._options = module, options

    def _open(self, method: str, seed: int) -> Any:
        config = _of_run(self._settings, method, seed)
        return self._module.init(**{"name": f"{method} seed {seed}", "config": config, **self._options})

    def _log(self, values: dict[str, float], round: int) -> None:
        self._run.log(values, step=round)

    def _close(self) -> None:
        self._run.finish()


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the measurements of a record that are finite numbers."""
    found = {
        name: value for name, value in record.items() if isinstance(value, int | float) and name not in COORDINATES
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _of_run(settings: Mapping[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Return the settings of one run of the tracker: the common settings, the method and the seed."""
    shared = {name: value for name, value in settings.items() if name not in ("methods", "seed", "seeds")}
    return {**shared, "method": method, "seed": seed}
