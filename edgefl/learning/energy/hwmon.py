"""The rails of the power monitors in /sys/class/hwmon. These are TI's INA chips, on Jetsons and many other boards,
ACPI's power meters, and AMD's counters.

Drivers that measure a part of a machine, such as a graphics card or a disk, are not asked. Units are the kernel's:
millivolt, milliampere, microwatt, microjoule.
"""

from __future__ import annotations

import re
from pathlib import Path

from edgefl.learning.energy.energy_counters import MICRO, Counter, EnergySourceProbe
from edgefl.learning.energy.rails import Rail, whole
from edgefl.system.sysfs import folders, number, text

KIND = "hwmon"
MONITOR = re.compile(r"ina\d+x?|sy24655|power_meter|amd_energy")
CHANNEL = re.compile(r"(?:curr|power|energy)(\d+)_(?:input|average)")
CHANNELS = {"ina3221": 3, "ina3221x": 3}  # a fourth current is the sum of three, further voltages are the shunts'
IDLE = ("NC", "sum of shunt voltages")  # labels of channels that measure nothing


def find(root: Path) -> EnergySourceProbe:
    """Return the source that the whole board's rails make. `root` stands for /."""
    return whole(KIND, rails(root))


def rails(root: Path) -> list[Rail]:
    """Return the rails of all monitors, in the order of the monitors' numbers. `root` stands for /."""
    monitors = sorted(folders(root / "sys/class/hwmon"), key=lambda each: (len(each.name), each.name))
    return [rail for monitor in monitors if MONITOR.fullmatch(text(monitor / "name")) for rail in _of(monitor)]


def _of(monitor: Path) -> list[Rail]:
    chip = text(monitor / "name")
    numbers = sorted({int(name[1]) for file in folders(monitor) if (name := CHANNEL.fullmatch(file.name))})
    found = [_rail(monitor, chip, channel) for channel in numbers if channel <= CHANNELS.get(chip, channel)]
    return [rail for rail in found if rail.is_there and rail.label not in IDLE]


def _rail(monitor: Path, chip: str, channel: int) -> Rail:
    labels = (text(monitor / f"{what}{channel}_label") for what in ("in", "power", "energy", "curr"))
    label = next(filter(None, labels), f"{monitor.name}/{channel}")
    energy = monitor / f"energy{channel}_input"
    counter = Counter(energy) if number(energy) is not None else None
    for name in (f"power{channel}_input", f"power{channel}_average"):
        if number(monitor / name) is not None:
            return Rail(KIND, chip, label, counter, (monitor / name,), MICRO)
    both = monitor / f"in{channel}_input", monitor / f"curr{channel}_input"
    return Rail(KIND, chip, label, counter, both, MICRO)  # millivolt times milliampere
