"""The choice of this machine's source of energy readings. A counter goes before a sampled source, and both go before
the gauge of a battery.

The environment variable EDGEFL_ENERGY_ROOT names the folder that stands for /, if it is set. This may be a made-up
machine, or an empty folder.
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
    """Return a probe of every kind of source, the best first. Probes without a source give the reason."""
    root = _root(root)
    found = [rapl.find(root), hwmon.find(root), jetson.find(root), battery.find(root)]
    return sorted(found, key=lambda each: each.source is None or not each.source.is_cheap)  # a stable sort


def choose(root: Path | None = None, is_asked: bool = True, wanted: Sequence[str] = ()) -> EnergySource | None:
    """Return the best source, or None if there is no source.

    is_asked  False chooses only a counter, which is exact and costs two readings
    wanted    labels of a power monitor's rails, which are taken in place of the best source
    Raises    RequestError for a rail that this machine does not have
    """
    if wanted:
        return added(named(rails(root), wanted))
    found = (each.source for each in survey(root) if each.source is not None)
    return next((source for source in found if is_asked or source.is_cheap), None)


def rails(root: Path | None = None) -> list[Rail]:
    """Return all rails that power monitors measure."""
    root = _root(root)
    return [*hwmon.rails(root), *jetson.rails(root)]


def _root(root: Path | None) -> Path:
    return Path(os.environ.get(ROOT) or "/") if root is None else root
