"""The cost of a client round on every kind of modelled device, from the metrics of a run. The model is in
device_models/simulated_clock.py. Nothing is printed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from edgefl.study.adaptation_costs import adaptation_by_device
from edgefl.study.capacity_tiers import Tiers
from edgefl.study.density_costs import mean


def by_device(log_records: Sequence[Mapping[str, Any]], tiers: Tiers) -> list[dict[str, Any]]:
    """Return a row for every device that a round was planned for, in the order of their first clients.

    client_rounds    number of client rounds that trained
    late             number of late rounds among them
    absent           number of client rounds that did not train
    seconds, joules  means of a client round in virtual time, None if no client has trained
    memory_bytes     memory of the device, None if unknown
    adapt_seconds, adapt_joules  means of an adaptation before a client's test, only where a model is adapted. Neither
                     `seconds` nor `joules` has them
    needed_bytes     memory of a step of FedSPU at the largest tier of the device's clients
    The list is empty if devices are not modelled.
    """
    found, first = defaultdict(list), dict[str, int]()
    for each in (each for log_record in log_records for each in log_record.get("clients", ()) if "device" in each):
        found[each["device"]].append(each)
        first[each["device"]] = min(each["client"], first.get(each["device"], each["client"]))
    adapted = adaptation_by_device(log_records)
    names = sorted(found, key=first.__getitem__)
    return [{**_row(name, found[name], tiers), **_adapting(adapted.get(name))} for name in names]


def _adapting(found: Mapping[str, float] | None) -> dict[str, float]:
    return {} if found is None else {f"adapt_{name}": found[f"virtual_{name}"] for name in ("seconds", "joules")}


def _row(name: str, records: Sequence[Mapping[str, Any]], tiers: Tiers) -> dict[str, Any]:
    trained = [each for each in records if "virtual_seconds" in each]
    return {
        "device": name,
        "client_rounds": len(trained),
        "late": sum(each["status"] == "late" for each in trained),
        "absent": len(records) - len(trained),
        "seconds": mean([each["virtual_seconds"] for each in trained]),
        "joules": mean([each["virtual_joules"] for each in trained]),
        "memory_bytes": tiers.device_memory.get(name) or None,
        "needed_bytes": max(tiers.memory_bytes[tiers.keep[each["client"]]] for each in records),
    }
