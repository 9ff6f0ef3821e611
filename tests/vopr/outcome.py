"""The end of one simulation, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.vopr.case import Case
from tests.vopr.faults import Fault


@dataclass(frozen=True)
class Outcome:
    """The end of a simulation.

    failure  the promise that was broken, or None
    hours    virtual hours
    trace    the last lines before a failure
    befallen the faults that came: their numbers in the plan of the seed, and their times in seconds
    members  how often the members of the run did what, by name (world.py)
    """

    case: Case
    failure: str | None
    digest: str
    hours: float
    events: int
    rounds: int
    verdicts: int
    crashes: int
    cpu_s: float
    trace: tuple[str, ...]
    befallen: tuple[tuple[int, float, Fault], ...]
    members: Mapping[str, int]
