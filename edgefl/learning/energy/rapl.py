"""The energy counters of Intel's and AMD's processors, RAPL, from /sys/class/powercap.

Only the counters of packages are added. Cores, and on most machines the graphics, are parts of a package. A server's
memory is a domain besides the packages, and "psys" is more than the packages. Neither is added. Since the end of 2020
only root may read the counters (CVE-2020-8694).
"""

from __future__ import annotations

import re
from pathlib import Path

from edgefl.learning.energy.energy_counters import Counter, CounterAccumulator, EnergySource, EnergySourceProbe
from edgefl.system.sysfs import folders, is_refused, number, text

KIND = "rapl"
ZONE = re.compile(r"intel-rapl:\d+")  # intel-rapl:0:0 is a part of a zone, and intel-rapl-mmio:0 repeats a package
PACKAGE = "package"
EVERY_S = 30.0  # a range is 65 kJ or more: above 2 kW a whole range could pass between two readings


def find(root: Path) -> EnergySourceProbe:
    """Return the source of all packages together, or the reason why there is no source. `root` stands for /."""
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
            return EnergySourceProbe(KIND, None, f"{file} does not contain a number; expected microjoules")
    counters = [Counter(package / "energy_uj", number(package / "max_energy_range_uj")) for package in packages]
    name = "RAPL " + " + ".join(text(package / "name") for package in packages)
    return EnergySourceProbe(KIND, EnergySource(KIND, name, EVERY_S, True, lambda: CounterAccumulator(counters)))
