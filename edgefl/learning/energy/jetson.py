"""The rails of a Jetson with JetPack 4 or older.

The kernels of these JetPacks have a driver of NVIDIA's own for the INA3221. It shows the rails as devices of
"industrial I/O" under /sys/bus/i2c/drivers/ina3221x. From JetPack 5 on hwmon.py finds the rails.
"""

from __future__ import annotations

from pathlib import Path

from edgefl.learning.energy.energy_counters import EnergySourceProbe
from edgefl.learning.energy.rails import Rail, whole
from edgefl.system.sysfs import folders, text

KIND, CHIP = "iio", "ina3221x"
CHANNELS = range(3)
MILLI = 1e-3


def find(root: Path) -> EnergySourceProbe:
    """Return the source that the whole board's rails make. `root` stands for /."""
    return whole(KIND, rails(root))


def rails(root: Path) -> list[Rail]:
    """Return the rails of all monitors. `root` stands for /."""
    chips = folders(root / f"sys/bus/i2c/drivers/{CHIP}")
    devices = {each.resolve() for chip in chips for each in folders(chip) if each.name.startswith("iio")}  # links, too
    found = [_rail(device, channel) for device in sorted(devices) for channel in CHANNELS]
    return [rail for rail in found if rail.label and rail.is_there]


def _rail(device: Path, channel: int) -> Rail:
    return Rail(KIND, CHIP, text(device / f"rail_name_{channel}"), None, (device / f"in_power{channel}_input",), MILLI)
