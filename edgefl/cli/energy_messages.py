"""Messages of the commands about this machine's energy: its source, or the reason why there is no source. The meter of
a device follows the same choice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgefl.learning.energy.meter import EnergyMeter
from edgefl.learning.energy.source_detection import choose, rails, survey

NONE = "not measured: no source"


def told_meter(asked: str | None, say: Callable[[str], None], root: Path | None = None) -> Callable[[], EnergyMeter]:
    """Choose a source of energy now, say it once, and return a function that makes a meter for each round.

    asked   --measure-energy: None where it was not given, empty without rails, or labels with commas between
    root    the folder that stands for /, where it is another folder
    Raises  RequestError for a rail that is not here
    """
    wanted = [label for label in (asked or "").split(",") if label]
    source = choose(root, asked is not None, wanted)
    if source is not None:
        say(f"energy of rounds is measured, of this whole machine: {source.name}")
    elif asked is not None:
        say(f"--measure-energy: {NONE} ({'; '.join(each.why for each in survey(root))})")
    return lambda: EnergyMeter(source)


def found() -> dict[str, Any]:
    """Return as JSON values the best source, whether it is used without --measure-energy, the rails, and the absent
    sources.
    """
    kinds, best = survey(), choose()
    return {
        "source": None if best is None else best.name,
        "kind": None if best is None else best.kind,
        "is_cheap": None if best is None else best.is_cheap,
        "rails": [rail.label for rail in rails()],
        "absent": {each.kind: each.why for each in kinds if each.source is None},
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the findings of `found` as text: the source, or the reasons why there is no source."""
    if found["source"] is None:
        return [NONE, *(f"{kind}: {why}" for kind, why in found["absent"].items())]
    how = "counted" if found["is_cheap"] else "with --measure-energy"
    said = [f"{found['source']} ({found['kind']}, {how})"]
    return [*said, *([f"rapl: {found['absent']['rapl']}"] if "root" in found["absent"].get("rapl", "") else [])]
