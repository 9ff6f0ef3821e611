"""The energy that batteries have given, from /sys/class/power_supply. There is a number only while they discharge.

A gauge moves in steps, of 10 mWh (36 J) on many laptops. So a short piece of work may see no step, or a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgefl.learning.energy.energy_counters import EnergySource, EnergySourceProbe
from edgefl.system.sysfs import number, supplies, text

KIND = "battery"
EVERY_S = 10.0  # seconds between two readings of the state and the voltage
JOULES_PER_UWH = 3.6e-3
JOULES_PER_UAH_UV = 3.6e-9  # 1 uAh is 3.6e-3 coulomb, and 1 uV is 1e-6 volt
DISCHARGING, CHARGING = "Discharging", "Charging"


def find(root: Path) -> EnergySourceProbe:
    """Return one source for all batteries of the machine together, whether or not they discharge now.

    `root` stands for /.
    """
    there = supplies(root)["Battery"]
    if not there:
        return EnergySourceProbe(KIND, None, "no battery")
    for battery in there:
        if _gauge(battery) is None:
            gauges = "energy_now, or charge_now and voltage_now"
            return EnergySourceProbe(KIND, None, f"{battery.name} does not state its charge; expected {gauges}")
    name = "battery " + " + ".join(battery.name for battery in there)
    return EnergySourceProbe(KIND, EnergySource(KIND, name, EVERY_S, False, lambda: Drained(there)))


class Drained:
    """The energy that all batteries together have lost."""

    def __init__(self, batteries: Sequence[Path]) -> None:
        self._batteries, self._last = batteries, list[tuple[int, float]]()
        self._joules, self._is_whole = 0.0, True

    def take(self, at_s: float) -> None:
        states = [text(battery / "status") for battery in self._batteries]
        found = [gauge for battery in self._batteries if (gauge := _gauge(battery)) is not None]
        if DISCHARGING not in states or CHARGING in states or len(found) < len(states):
            self._is_whole = False
            return
        for (before, unit_before), (now, unit) in zip(self._last, found):  # empty at the first reading
            self._joules += (before - now) * (unit_before + unit) / 2
        self._last = found

    @property
    def joules(self) -> float | None:
        return self._joules if self._is_whole and self._joules > 0 else None


def _gauge(battery: Path) -> tuple[int, float] | None:
    """Return the reading of the gauge and the joules of one unit of it, or None if the battery does not report both."""
    energy_uwh = number(battery / "energy_now")
    if energy_uwh is not None:
        return energy_uwh, JOULES_PER_UWH
    charge_uah, voltage_uv = number(battery / "charge_now"), number(battery / "voltage_now")
    if charge_uah is None or not voltage_uv:
        return None
    return charge_uah, JOULES_PER_UAH_UV * voltage_uv
