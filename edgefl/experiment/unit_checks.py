"""The check of the units of a user's data: columns and targets whose spread would silently end training are refused by
name before round 1. The remedy is standardisation (data/standardisation.py).

data/column_units.py checks the columns. Training with a squared error diverges if the error's size times the learning
rate is above about 10. We measured this with the built-in models: plain SGD at a rate of .05 stays finite with targets
of about 40 and diverges with targets of about 400.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.column_units import REMEDY, check_columns, constant_in_clients, is_normalised
from edgefl.experiment.data.scales import moments
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner
from edgefl.learning.losses import MSE
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.models.graph import Model

STEEP = 10.0  # learning rate times error above which plain SGD diverges
FAR, FAR_BY_RATE = 1e4, 1e6  # errors too large for other optimizers and losses in any number of rounds
TRIED = 256  # number of samples on which the untrained model is tried


def check_units(experiment: Experiment, federation: Federation) -> None:
    """Raise DataError naming the column, its spread and the factor, or else the targets' size and the remedy."""
    if is_normalised(federation.graph) and UpdateNormBound.parse(experiment.bound).kind != "off":
        check_columns(federation.data, federation.columns)
    if not federation.data.loss.has_labels and not federation.data.loss.decisions(1):
        _check_targets(experiment, federation)


def constant_columns(federation: Federation) -> tuple[str, ...]:
    """The columns with names that differ between clients alone, where the inputs go into a batch norm."""
    x, names = federation.data.x, federation.columns
    if names is None or x.ndim != 2 or not is_normalised(federation.graph):
        return ()
    return tuple(names[at] for at in constant_in_clients(x, [client.train for client in federation.clients]))


def constant_columns_said(names: Sequence[str]) -> tuple[str, str]:
    """Return the sentence about these columns, and the remedy."""
    what = f"{', '.join(names)}: one value within each client, which spoils a model of all clients (batch norm)"
    return what, f"--drop {','.join(dict.fromkeys(name.partition('=')[0] for name in names))}"


def _check_targets(experiment: Experiment, federation: Federation) -> None:
    data, is_tuned = federation.data, any(name == "lr" for name, _ in experiment.tune)
    size = float(np.sqrt(np.mean(np.square(data.y, dtype=np.float64))))
    is_plain = isinstance(data.loss, MSE) and dict(experiment.options).get("optimizer", "sgd") == "sgd"
    most = STEEP / experiment.lr if is_plain else max(FAR, FAR_BY_RATE * experiment.lr)
    if is_tuned or size <= most or (error := _first_error(federation)) <= most:
        return
    spread = max(moments(data.y)[1])
    what = "diverges" if is_plain else "does not reach the targets"
    raise DataError(
        f"y has spread {spread:.3g} and the untrained model is off by {error:.3g}, and so training at lr="
        f"{experiment.lr:g} {what}; expected errors of at most {most:.3g}: subtract the mean of y and divide by "
        f"{spread:.0e}, or {REMEDY}"
    )


def _first_error(federation: Federation) -> float:
    """Return the root mean square error of the model before round 1, on some of the samples."""
    data, graph = federation.data, federation.graph
    rows = np.arange(0, len(data.y), max(1, len(data.y) // TRIED))
    x = data.x[rows].astype(np.float32) * np.float32(data.scale) + np.float32(data.shift)
    found = GraphLearner(Model(graph, federation.initial())).predict(np.ascontiguousarray(x))
    return float(np.sqrt(np.mean(np.square(found - data.y[rows], dtype=np.float64))))
