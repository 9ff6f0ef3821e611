"""A simulation from its case to its outcome, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import process_time

from tests.vopr.case import Case
from tests.vopr.outcome import Outcome
from tests.vopr.world import World


def simulate(
    seed: int, hours: float, devices: int, method: str, training: str = "stub", *, often: float = 1.0
) -> Outcome:
    """Simulate a case that has these fields, in a temporary folder."""
    return simulated(Case(seed, hours, devices, method, training, often=often))


def simulated(case: Case) -> Outcome:
    """Simulate a case in a temporary folder."""
    begun = process_time()
    with tempfile.TemporaryDirectory(prefix="vopr-", dir=memory()) as folder:
        world = World(case, Path(folder))
        world.run()
    schedule = world.schedule
    return Outcome(
        case,
        None if world.failure is None else schedule.placeless(world.failure),
        schedule.digest,
        schedule.now / 3600,
        schedule.events,
        world.rounds,
        world.ledger.verdicts,
        world.crashes,
        process_time() - begun,
        tuple(schedule.trace),
        tuple(world.befallen),
        world.members_seen,
    )


def memory() -> str | None:
    """Return a folder in memory, where SQLite's own syncs take no time, or None if there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
