"""The choice of this machine's source of energy readings: a counter before a sampled source, and both before the gauge
of a battery.

The folder that stands for / is EDGEFL_ENERGY_ROOT, where that is set: a made-up machine, or a folder that has nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from edgefl.learning.energy import battery, hwmon, jetson, rapl
from edgefl.learning.energy.energy_counters import EnergySource, EnergySourceProbe
from edgefl.learning.energy.rails import Rail, added, named

ROOT = "EDGEFL_ENERGY_ROOT"


def survey(root: Path | None = None) -> list[EnergySourceProbe]:
    """Every kind of source, the best first: what is there, and why the others are not."""
    root = _root(root)
    found = [rapl.find(root), hwmon.find(root), jetson.find(root), battery.find(root)]
    return sorted(found, key=lambda each: each.source is None or not each.source.is_cheap)  # the order stays otherwise


def choose(root: Path | None = None, is_asked: bool = True, wanted: Sequence[str] = ()) -> EnergySource | None:
    """The best source; None if there is none.

    is_asked  False: only one that costs two readings and is exact, a counter
    wanted    labels of a power monitor's rails, in place of whatever is best
    Raises    RequestError for a rail that is not here.
    """
    if wanted:
        return added(named(rails(root), wanted))
    found = (each.source for each in survey(root) if each.source is not None)
    return next((source for source in found if is_asked or source.is_cheap), None)


def rails(root: Path | None = None) -> list[Rail]:
    """All that power monitors measure."""
    root = _root(root)
    return [*hwmon.rails(root), *jetson.rails(root)]


def _root(root: Path | None) -> Path:
    return Path(os.environ.get(ROOT) or "/") if root is None else root
