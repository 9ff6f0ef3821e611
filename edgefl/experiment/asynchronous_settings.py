"""The settings of asynchronous rounds in an experiment, and what they exclude."""

from __future__ import annotations

from typing import Protocol

from edgefl.methods.rounds.asynchronous import AsynchronousRounds, StalenessFactor


class AsynchronousFields(Protocol):
    """The settings of an Experiment that asynchronous rounds depend on."""

    @property
    def buffer(self) -> int: ...
    @property
    def per_round(self) -> int: ...
    @property
    def staleness(self) -> str: ...
    @property
    def max_staleness(self) -> int: ...
    @property
    def aggregation(self) -> str: ...
    @property
    def devices(self) -> str: ...
    @property
    def deadline_s(self) -> float: ...
    @property
    def diagnose(self) -> bool: ...


def asynchronous_rounds(experiment: AsynchronousFields) -> AsynchronousRounds | None:
    """Return the settings of an experiment's asynchronous rounds, or None if its rounds wait for their clients.

    Raises  ValueError that names a value out of range, or another setting that such rounds cannot have
    """
    buffer, per_round, most = experiment.buffer, experiment.per_round, experiment.max_staleness
    StalenessFactor.parse(experiment.staleness)
    if most < 0:
        raise ValueError(f"max_staleness={most}; expected max_staleness >= 0")
    if not 0 <= buffer <= per_round:
        raise ValueError(f"buffer={buffer}; expected 0 <= buffer <= {per_round}, the clients per round")
    if not buffer:
        return None
    if experiment.aggregation != "mean":
        raise ValueError(f"aggregation={experiment.aggregation} with buffer={buffer}; expected aggregation=mean")
    if experiment.deadline_s:
        raise ValueError(
            f"deadline_s={experiment.deadline_s:g} with buffer={buffer}; expected max_staleness, which limits how late "
            "a reply may be"
        )
    if experiment.diagnose:
        raise ValueError(f"diagnose with buffer={buffer}; expected rounds that wait for their clients")
    return AsynchronousRounds(buffer, per_round, most)


def check_simulated(experiment: AsynchronousFields) -> None:
    """Raise ValueError for asynchronous rounds of a simulation that does not know when replies arrive."""
    if experiment.buffer and not experiment.devices:
        raise ValueError(
            f"buffer={experiment.buffer} without devices; expected devices, such as mixed, whose speed says which "
            "replies come first"
        )
