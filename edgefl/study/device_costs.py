"""What a client round took on every kind of modelled device, from the lines of a run. It models nothing: the clock does
(virtual/clock.py). It prints nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from edgefl.study.density_costs import mean


def by_device(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for every device that a round was planned for, in order of their first clients: client rounds that trained,
    `late` ones among them, and `absent` ones, which did not; the means of one's virtual seconds and joules, None where
    nobody has trained. [] where devices are not modelled.
    """
    found, first = defaultdict(list), dict[str, int]()
    for each in (each for line in lines for each in line.get("clients", ()) if "device" in each):
        found[each["device"]].append(each)
        first[each["device"]] = min(each["client"], first.get(each["device"], each["client"]))
    return [_row(name, found[name]) for name in sorted(found, key=first.__getitem__)]


def _row(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    trained = [each for each in records if "virtual_seconds" in each]
    return {
        "device": name,
        "client_rounds": len(trained),
        "late": sum(each["status"] == "late" for each in trained),
        "absent": len(records) - len(trained),
        "seconds": mean([each["virtual_seconds"] for each in trained]),
        "joules": mean([each["virtual_joules"] for each in trained]),
    }
