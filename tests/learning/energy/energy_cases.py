"""Machines that tell their energy, and a meter whose time passes only when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgefl.learning.energy.energy_counters import EnergySource
from edgefl.learning.energy.meter import EnergyMeter
from tests.made_up import write

POWERCAP, HWMON, SUPPLY = "sys/class/powercap", "sys/class/hwmon", "sys/class/power_supply"
IIO = "sys/bus/i2c/drivers/ina3221x"


def package(root: Path, number: int, uj: object, range_uj: object = 262143328850, name: str = "package-0") -> Path:
    """A RAPL zone."""
    zone = f"{POWERCAP}/intel-rapl:{number}"
    return write(root, {f"{zone}/name": name, f"{zone}/energy_uj": uj, f"{zone}/max_energy_range_uj": range_uj})


def ina3221(root: Path, place: str, rails: list[tuple[str, int, int]]) -> Path:
    """Write a monitor with rails of label, mV and mA, and what the driver adds: shunts, and sums."""
    files: dict[str, object] = {f"{HWMON}/{place}/name": "ina3221"}
    for channel, (label, mv, ma) in enumerate(rails, 1):
        files[f"{HWMON}/{place}/in{channel}_label"] = label
        files[f"{HWMON}/{place}/in{channel}_input"] = mv
        files[f"{HWMON}/{place}/curr{channel}_input"] = ma
        files[f"{HWMON}/{place}/in{channel + 3}_input"] = ma * 5  # of the shunt, uV
    files[f"{HWMON}/{place}/in7_label"] = "sum of shunt voltages"
    files[f"{HWMON}/{place}/in7_input"] = files[f"{HWMON}/{place}/curr4_input"] = sum(ma for _, _, ma in rails)
    return write(root, files)


class Hands:
    """A clock that is set by hand, and a thread that reads when it is told to."""

    def __init__(self) -> None:
        self.now_s, self.every_s = 100.0, 0.0
        self._read: Callable[[], None] = lambda: None

    def meter(self, source: EnergySource | None, idle_watts: float | None = None) -> EnergyMeter:
        return EnergyMeter(source, idle_watts, lambda: self.now_s, self.repeat)

    @contextmanager
    def repeat(self, call: Callable[[], None], every_s: float) -> Iterator[None]:
        self._read, self.every_s = call, every_s
        yield
        self._read = lambda: None

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def read(self) -> None:
        """Read as the thread does."""
        self._read()
