"""A warning if other programs keep this machine so busy that a time measured now should not be quoted."""

from __future__ import annotations

import os

FREE = 0.5  # processors that a measurement must find free besides its own, over the last minute


def warning(threads: int = 1) -> str:
    """Return one sentence if the load of the last minute leaves a measurement too few processors. Return "" otherwise.

    threads  number of processors that the measurement itself keeps busy
    """
    if not hasattr(os, "getloadavg"):
        return ""
    load, there = os.getloadavg()[0], os.cpu_count() or 1
    if load <= max(there - FREE, threads + FREE):
        return ""
    return (
        f"The load of this machine is {load:.1f} on {there} processors: other programs slow what is measured, and "
        "these times should not be quoted."
    )
