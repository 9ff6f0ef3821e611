"""The work of adapting a client's model before a test, as values: what it took, and how it stands in the metrics.

An adaptation sends and receives no payload. The model of all clients, from which it begins, is part of an evaluation.
The simulation and a device measure the work alike. device_models/simulated_clock.py has the time and the energy of
modelled devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.learner import Evaluation, ExecutedFlops
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.rounds.client_round import EXECUTED
from edgefl.models.graph import Params

ADAPTATION = "adaptation"  # entry of a log record: the work of an evaluation's adaptations. Also a part of a request


class Adaptation(NamedTuple):
    """The work of one client to adapt its model before one test.

    steps    gradient steps, as the method says (Algorithm.adaptation)
    flops    operations of the products that the learner ran to train
    seconds  seconds of the adaptation
    """

    steps: int
    flops: float
    seconds: float

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was trained."""
        return not (self.steps or self.flops)


class AdaptedScores(NamedTuple):
    """The scores of a client's own model, on each part of its samples, and the work that adapted the model before."""

    found: list[Evaluation]
    adaptation: Adaptation


def own_scores(
    algorithm: Algorithm,
    client_state: ClientState,
    shared: Params | None,
    parts: Sequence[NDArray[np.int32]],
    clock: Callable[[], float],
) -> AdaptedScores:
    """Score a client's own model (Algorithm.own) on parts of its samples. The model is made once for all parts.

    The first part is the client's test samples. A method with an `evaluate` of its own scores one part alone itself.
    """
    before, started = client_state.learner.work(), clock()
    if len(parts) == 1 and type(algorithm).evaluate is not Algorithm.evaluate:
        found = [algorithm.evaluate(client_state, shared)]
        return AdaptedScores(found, _spent(algorithm, client_state, before, clock() - started))
    with algorithm.own(client_state, shared) as mine:
        spent = _spent(algorithm, client_state, before, clock() - started)
        return AdaptedScores([mine.evaluate(part) for part in parts], spent)


def _spent(algorithm: Algorithm, client_state: ClientState, before: ExecutedFlops, seconds: float) -> Adaptation:
    """Return the work of a client since the learner had executed `before`."""
    flops = client_state.learner.work().training - before.training
    steps, _ = algorithm.adaptation(len(client_state.train))
    return Adaptation(steps, float(flops), seconds)


Modelled = Callable[[int, float, int], Mapping[str, Any]]  # client, operations, steps -> values of a modelled device


def no_model(client: int, flops: float, steps: int) -> Mapping[str, Any]:
    """Return no values, because no device is modelled."""
    return {}


def adaptation_metrics(found: Mapping[int, Adaptation], modelled: Modelled = no_model) -> dict[str, Any]:
    """Return the entry of a log record, or {} if no client adapted its model."""
    clients = [
        {
            "client": client,
            "steps": each.steps,
            EXECUTED: each.flops,
            "seconds": each.seconds,
            **modelled(client, each.flops, each.steps),
        }
        for client, each in sorted(found.items())
        if not each.is_empty
    ]
    return {ADAPTATION: {"payload_bytes": 0, "clients": clients}} if clients else {}
