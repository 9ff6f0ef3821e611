"""The rails of a board that together are the whole board, and the source that they make. Other modules find the rails.

The power of a rail behind another rail is included in the power of the rail in front. So rails are added only where it
is known that they are side by side. Otherwise the owner of the board names the rails to add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.learning.energy.energy_counters import (
    Counter,
    CounterAccumulator,
    EnergySource,
    EnergySourceProbe,
    PowerIntegrator,
)
from edgefl.system.sysfs import number

EVERY_S = 0.1  # seconds: a monitor averages over some ms, and a reading over I2C takes about 1 ms
COUNTED_EVERY_S = 30.0
WHOLE = ("VIN", "VDD_IN", "POM_5V_IN", "5V_IN")
"""Labels of a rail that feeds a whole board or module.

VIN is the input of a carrier board, read by the INA238 of a Jetson AGX Thor. The other rails are inputs of a module:
VDD_IN of Orin Nano, Orin NX, Xavier NX, TX1 and TX2, and POM_5V_IN of Nano.
"""
BESIDE = (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),)
"""Labels of rails that feed a whole board together, here a Jetson AGX Xavier.

It is not known which rails of a Jetson AGX Orin feed others.
"""
SOCKET = "Esocket"  # amd_energy: Ecore000 and other counters are parts of a socket


@dataclass(frozen=True)
class Rail:
    """The readings of a monitor at one measuring point.

    kind     kind of the source that the rail would be
    chip     name of the monitor's driver
    label    label of the rail, or chip and number of the channel where there is no label
    counter  counter of the rail's energy, if the monitor counts
    factors  files whose product is the rail's power
    unit     factor that turns the product into watts
    """

    kind: str
    chip: str
    label: str
    counter: Counter | None
    factors: tuple[Path, ...]
    unit: float

    @property
    def watts(self) -> float | None:
        """The power now, in watts. It is None if the power cannot be read."""
        product = 1
        for file in self.factors:
            value = number(file)
            if value is None:
                return None
            product *= value
        return product * self.unit if self.factors else None

    @property
    def is_there(self) -> bool:
        """Return whether the rail can be read. A channel may be switched off."""
        return (self.counter is not None and number(self.counter.file) is not None) or self.watts is not None


def whole(kind: str, rails: Sequence[Rail]) -> EnergySourceProbe:
    """Return the source that the whole board's rails make, all of one kind, or the reason why they make no source."""
    if not rails:
        return EnergySourceProbe(kind, None, "no power monitor that edgefl knows")
    if chosen := _whole(rails):
        return EnergySourceProbe(kind, added(chosen))
    if len(rails) == 1:  # the rail may not be the board's input, so it is used only on request
        return EnergySourceProbe(kind, added(rails)._replace(is_cheap=False))
    there = ", ".join(rail.label for rail in rails)
    return EnergySourceProbe(
        kind,
        None,
        f"it is not known which of the rails {there} feed the whole board; expected their names in --measure-energy",
    )


def added(rails: Sequence[Rail]) -> EnergySource:
    """Return the source of all of these rails together. There is at least one rail."""
    kind, name = rails[0].kind, f"{rails[0].chip} " + " + ".join(rail.label for rail in rails)
    counters = [rail.counter for rail in rails if rail.counter is not None]
    if len(counters) == len(rails):
        return EnergySource(kind, name, COUNTED_EVERY_S, True, lambda: CounterAccumulator(counters))
    return EnergySource(kind, name, EVERY_S, False, lambda: PowerIntegrator(lambda: _watts(rails)))


def named(rails: Sequence[Rail], wanted: Sequence[str]) -> list[Rail]:
    """Return the rails that have these labels. Raises RequestError for a label that no rail has."""
    labels = [rail.label for rail in rails]
    for label in wanted:
        if not labels:
            raise RequestError(f"rail {label!r} on a machine without a power monitor; expected no rail names")
        if label not in labels:
            raise RequestError(f"rail {label!r}; expected some of {', '.join(labels)}")
    return [rail for rail in rails if rail.label in wanted]


def _whole(rails: Sequence[Rail]) -> list[Rail]:
    """Return the rails that are known to be the whole board. The list is empty if no label is known."""
    for labels in (*((label,) for label in WHOLE), *BESIDE):
        found = [rail for rail in rails if rail.label in labels]
        if len(found) == len(labels) == len({rail.label for rail in found}):
            return found
    return [rail for rail in rails if rail.label.startswith(SOCKET)]


def _watts(rails: Sequence[Rail]) -> float | None:
    """Return the power of all rails together, in watts, or None if one of them cannot be read."""
    found = [rail.watts for rail in rails]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None
