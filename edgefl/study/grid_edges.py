"""Warnings for chosen values at the edge of their grid, because a better value may lie beyond the grid. tuning.py
chooses the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefl.methods import build
from edgefl.methods.method_label import written


@dataclass(frozen=True)
class GridEdge:
    """A method whose chosen value of an option is the smallest or the largest of several numbers that were tried.

    beyond  a value one step beyond the grid, which the method would accept
    """

    method: str
    option: str
    value: float
    tried: tuple[float, ...]
    beyond: float

    @property
    def side(self) -> str:
        return "largest" if self.beyond > self.value else "smallest"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "side": self.side, "tried": list(self.tried)}

    def __str__(self) -> str:
        values = ", ".join(map(written, self.tried))
        return (
            f"{self.method}: {self.option}={written(self.value)} is the {self.side} of the values tried ({values}); "
            f"a better value may lie beyond, as {self.option}={written(self.beyond)}."
        )


def grid_edges(record: Mapping[str, Any] | None, shared: Mapping[str, Any] = {}) -> list[GridEdge]:
    """Return the edges in the record of a tuning (experiment/tuned_values.py). The list is empty without a record.

    shared  the options that the methods have in common
    """
    found = [] if record is None else record["methods"].items()
    return [
        edge
        for label, each in found
        for option, value in each["chosen"].items()
        if (edge := _edge(label, option, value, each, shared)) is not None
    ]


def _edge(label: str, option: str, value: Any, each: Mapping[str, Any], shared: Mapping[str, Any]) -> GridEdge | None:
    tried = sorted({one["values"][option] for one in each["reached"] if _is_number(one["values"][option])})
    if len(tried) < 2 or value not in (tried[0], tried[-1]):
        return None
    beyond, chosen = _beyond(value, tried), {**shared, **each["chosen"]}
    if _is_taken(label, chosen) and not _is_taken(label, {**chosen, option: beyond}):
        return None  # the option accepts no value beyond
    return GridEdge(label, option, value, tuple(tried), beyond)


def _is_taken(label: str, options: Mapping[str, Any]) -> bool:
    """Return whether the method accepts these values. It is False for methods of other programs."""
    try:
        build(label, options)
    except ValueError:
        return False
    return True


def _beyond(value: float, tried: Sequence[float]) -> float:
    """Return one more step: by the ratio of the last two values if they have one sign, or else by their difference."""
    neighbour = tried[1] if value == tried[0] else tried[-2]
    further = value * value / neighbour if value * neighbour > 0 else 2 * value - neighbour
    if isinstance(value, int):
        return round(further) if round(further) != value else value + (1 if value > neighbour else -1)
    return float(f"{further:.4g}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
