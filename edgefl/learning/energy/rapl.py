"""The processor's own energy counters, RAPL, from /sys/class/powercap: of Intel's and AMD's processors.

Packages alone: cores, and on most machines the graphics, are parts of them. A server's memory is a domain beside them,
"psys" is more than them; neither is added. Since the end of 2020 root alone may read them (CVE-2020-8694).
"""

from __future__ import annotations

import re
from pathlib import Path

from edgefl.learning.energy.energy_counters import Counter, CounterAccumulator, EnergySource, EnergySourceProbe
from edgefl.system.sysfs import folders, is_refused, number, text

KIND = "rapl"
ZONE = re.compile(r"intel-rapl:\d+")  # a part of one is intel-rapl:0:0, and intel-rapl-mmio:0 is a package once more
PACKAGE = "package"
EVERY_S = 30.0  # a range is 65 kJ or more: above 2 kW it would pass unseen


def find(root: Path) -> EnergySourceProbe:
    """All packages together, or why not. `root` stands for /."""
    zones = [zone for zone in folders(root / "sys/class/powercap") if ZONE.fullmatch(zone.name)]
    packages = [zone for zone in zones if text(zone / "name").startswith(PACKAGE)]
    if not packages:
        return EnergySourceProbe(KIND, None, "no package in /sys/class/powercap")
    for package in packages:
        file = f"/sys/class/powercap/{package.name}/energy_uj"
        if is_refused(package / "energy_uj"):
            return EnergySourceProbe(
                KIND, None, f"{file} may not be read by this user; expected root, or chmod o+r by root"
            )
        if number(package / "energy_uj") is None:
            return EnergySourceProbe(KIND, None, f"{file} is no number; expected microjoules")
    counters = [Counter(package / "energy_uj", number(package / "max_energy_range_uj")) for package in packages]
    name = "RAPL " + " + ".join(text(package / "name") for package in packages)
    return EnergySourceProbe(KIND, EnergySource(KIND, name, EVERY_S, True, lambda: CounterAccumulator(counters)))
