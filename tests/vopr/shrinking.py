"""The smallest list of faults that still breaks a promise of the same kind. The failure of one seed has many faults.

Source  delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002
"""

from __future__ import annotations

import re
from dataclasses import replace
from time import process_time

from tests.vopr.outcome import Outcome
from tests.vopr.simulation import simulated


def shrunk(found: Outcome, limit_s: float) -> Outcome:
    """Return the outcome with the fewest faults that was found within so many seconds of CPU time.

    found  a broken promise. Faults that were planned for a later time are left out at once
    """
    assert found.failure is not None
    until, smallest = process_time() + limit_s, found
    kept, size = [number for number, _, _ in found.befallen], max(1, len(found.befallen) // 2)
    while kept and process_time() < until:
        before, at = len(kept), 0
        while at < len(kept) and process_time() < until:
            fewer = kept[:at] + kept[at + size :]
            outcome = simulated(replace(found.case, kept=tuple(fewer)))
            if outcome.failure is not None and kind(outcome.failure) == kind(found.failure):
                kept, smallest = fewer, outcome
            else:
                at += size
        if size == 1 and len(kept) == before:
            break
        size = max(1, size // 2)
    return smallest


def kind(failure: str) -> str:
    """Return a failure without its numbers and identities, so that two failures of one kind are equal."""
    plain = re.sub(r"\b[0-9a-f]{12,}\b|-?\d+(\.\d+)?", "N", failure)
    return re.sub(r"N(, N)+", "N", plain)
