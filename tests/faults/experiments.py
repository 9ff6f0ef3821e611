"""The shape of the runs that get faults: one method, equal samples, and an epoch a round, so that runs are short."""

from __future__ import annotations

from dataclasses import replace

from edgefl.cli import local_processes as demo
from edgefl.experiment.settings import Experiment


def short_rounds(method: str, clients: int, per_round: int, rounds: int, eval_every: int) -> Experiment:
    """Return an experiment of so many rounds of this method."""
    counts = {"clients": clients, "per_round": per_round, "rounds": rounds, "eval_every": eval_every}
    return replace(demo.EXPERIMENT, data="digits", methods=(method,), partition="iid", epochs=1, **counts)


EIGHT = short_rounds("fedspu", clients=8, per_round=8, rounds=20, eval_every=20)
"""Eight devices that all take part in every round."""
