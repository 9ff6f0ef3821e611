"""The work of adapting a client's model before a test, as values: what it took, and how it stands in the metrics.

An adaptation sends and receives no payload. The model of all clients, from which it begins, is part of an evaluation.
evaluation_jobs.py measures the work, and device_models/simulated_clock.py has the time and the energy of modelled
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from edgefl.methods.rounds.client_round import EXECUTED

ADAPTATION = "adaptation"  # entry of a log record: the work of an evaluation's adaptations


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


Modelled = Callable[[int, float, int], Mapping[str, Any]]  # client, operations, steps -> values of a modelled device


def adaptation_metrics(found: Mapping[int, Adaptation], modelled: Modelled) -> dict[str, Any]:
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
