"""The faults of a simulation: how often each kind comes in an hour, and what it does. The seed chooses the rates."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.vopr.schedule import Schedule

RATES = {  # times in an hour for the whole federation, where the seed does not leave a kind out or make it frequent
    "kill server": 4.0,
    "power server": 2.0,
    "halt server": 2.0,
    "kill device": 20.0,
    "power device": 10.0,
    "halt device": 10.0,
    "cut": 20.0,
    "reset": 40.0,
}
FULL = {"full server": 4.0, "full device": 20.0}  # as RATES, in one seed of three
ERRORS = {  # as RATES, in one seed of three: calls of the disk that fail, and bits of files that change
    "error server": 6.0,
    "error device": 20.0,
    "rot server": 6.0,
    "rot device": 6.0,
}
OPERATIONS = {  # as RATES, in one seed of three: what operators do
    "change server": 3.0,
    "revoke device": 1.0,
    "rotate device": 2.0,
    "replace device": 2.0,
}
COMMANDS = {"command server": 10.0}  # as RATES, in one seed of three: commands to the running server
DEPARTURES = {"leave device": 10.0}  # as RATES, in one seed of three: devices leave the run for a while
CLOCKS = {"clock server": 6.0, "clock device": 12.0}  # as RATES, in one seed of three: leaps of the wall clock
MAINS = {"mains device": 20.0}  # as RATES, in one seed of three: machines of agents go off the mains
FACTORS = (0.0, 0.3, 1.0, 4.0)
SEAMS = 12  # a process that is killed dies at one of its next seams, at most the last of so many
RENAMED = "after replace"  # where a third of the kills at a seam strike a device: the name is not synced
EARLY = (0.0, 0.1, 0.3)  # shares of the starts of processes that soon end in a kill or a loss of power
YOUNG, YOUNG_S = 3.0, 600.0  # in its first seconds a federation has so many times as many of these kills
TWICE = 0.5  # share of the processes killed at a seam whose next life loses power, with what the first life left
EARLY_AT = ("", "before COMMIT", RENAMED)  # a server that starts comes to any of them, its first commit or a rename
PIECE, PIECES = "within write model.part", 6  # a device that downloads the model writes so many pieces of it
EARLY_AT_DEVICE = ("", "", PIECE)
EARLY_SEAMS_AT = {"": 40, RENAMED: 4, PIECE: PIECES}  # about so many seams of these names come when a process starts
WITHIN = "within COMMIT"  # where a third of the kills at a seam strike a server: what it wrote there is not synced
CALLS = 200  # a disk that fails does so at one of so many calls. A server that starts makes most of them
LEAP = 3600.0  # times the seconds of a fault that a wall clock leaps
WRITING_S = (0.02, 0.02, 20.0)  # most seconds that a commit of the server takes. The seed chooses one
FULL_S = 60.0  # most seconds for which a disk is full
LONGEST_S = 600.0  # longest time for which anything is away


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, the device if it has one, and seconds that belong to it."""

    kind: str
    client: int
    seconds: float
    seams: int

    @property
    def at(self) -> str:
        """The beginning of the names of the seams at which a process is killed."""
        if self.seams % 3 != 1:
            return ""
        return WITHIN if "server" in self.kind else RENAMED

    @property
    def calls(self) -> int:
        """The number of calls up to the call that fails."""
        return 1 + int(1000 * self.seconds) % CALLS

    @property
    def leap_s(self) -> float:
        """The seconds by which a wall clock leaps, of any order of magnitude up to weeks, forward or back."""
        return (1 if self.seams % 2 else -1) * LEAP * self.seconds

    def __str__(self) -> str:
        where = "" if "server" in self.kind else f" {self.client}"
        return f"{self.kind}{where} ({self.seconds:.3f} s, seam {self.seams})"


def drawn(stream: random.Random, rates: Mapping[str, float], hours: float, clients: int) -> list[tuple[float, Fault]]:
    """Return the faults of so many hours with their times in seconds, in order."""
    found: list[tuple[float, Fault]] = []
    for kind, rate in rates.items():
        often = rate * stream.choice(FACTORS)
        time = 0.0
        while often and (time := time + stream.expovariate(often / 3600.0)) < hours * 3600.0:
            seams = stream.choice((0, stream.randrange(1, SEAMS + 1)))
            found.append((time, Fault(kind, stream.randrange(clients), away_s(stream), seams)))
    return sorted(found, key=lambda each: each[0])


def away_s(stream: random.Random) -> float:
    """Return a time of at most LONGEST_S seconds, of any order of magnitude from a tenth of a second on."""
    return LONGEST_S * 10 ** -(3.8 * stream.random())


def planned(schedule: Schedule, hours: float, clients: int, often: float) -> list[tuple[float, Fault]]:
    """Return the faults that the seed of the schedule gives, `often` times as many as the rates say."""
    found = drawn(schedule.stream("faults"), _times(RATES, often), hours, clients)
    rare = {"full disks": FULL, "failing disks": ERRORS, "operations": OPERATIONS, "clocks": CLOCKS, "mains": MAINS}
    rare |= {"commands": COMMANDS, "departures": DEPARTURES}
    for purpose, rates in rare.items():
        stream = schedule.stream(purpose)
        found += drawn(stream, _times(rates, often) if stream.random() < 1 / 3 else {}, hours, clients)
    return sorted(found, key=lambda each: each[0])


def _times(rates: Mapping[str, float], often: float) -> dict[str, float]:
    return {kind: often * rate for kind, rate in rates.items()}
