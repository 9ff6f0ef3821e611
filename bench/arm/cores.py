"""Cores of boards, as data for an estimate: clocks as sold, and instructions a cycle that are assumed, not measured."""

from __future__ import annotations

from typing import NamedTuple


class Core(NamedTuple):
    """A core.

    `per_cycle` is the assumed number of instructions that a cycle executes, on average over a training step.
    """

    name: str
    board: str
    clock_hz: float
    per_cycle: float

    def seconds(self, instructions: float) -> float:
        return instructions / (self.clock_hz * self.per_cycle)


CORES = (
    Core("A53", "Pi 3", 1.2e9, 0.8),
    Core("A72", "Pi 4", 1.5e9, 1.5),
    Core("A76", "Pi 5", 2.4e9, 2.2),
    Core("A78AE", "Orin Nano", 1.5e9, 2.2),
)
ASSUMED = "; ".join(
    f"{core.board}: {core.name} at {core.clock_hz / 1e9:g} GHz, {core.per_cycle:g} instructions a cycle"
    for core in CORES
)
