"""The cost of adapting a model before a client's test, from the metrics of a run: means over clients, and a sentence.

Rounds have costs of their own (device_costs.py, density_costs.py), in which no adaptation is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgefl.methods.rounds.adaptation import ADAPTATION
from edgefl.methods.rounds.client_round import EXECUTED
from edgefl.study.density_costs import mean

COSTS = ("steps", EXECUTED, "seconds", "virtual_seconds", "virtual_joules")


def adaptation_of(log_record: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the mean costs of one client's adaptation in an evaluated round, or None if no client adapted its model.

    `virtual_seconds` and `virtual_joules` are there only with modelled devices.
    """
    clients = log_record.get(ADAPTATION, {}).get("clients", ())
    return _means(clients)


def last_adaptation(log_records: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return `adaptation_of` for the last evaluated round."""
    evaluated = [log_record for log_record in log_records if log_record.get("evaluation")]
    return adaptation_of(evaluated[-1]) if evaluated else None


def adaptation_by_device(log_records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean costs of an adaptation over all evaluations, by the name of the modelled device."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for log_record in log_records:
        for each in log_record.get(ADAPTATION, {}).get("clients", ()):
            if "device" in each:
                found.setdefault(each["device"], []).append(each)
    return {name: means for name, each in found.items() if (means := _means(each))}


def prefixed(found: Mapping[str, float] | None) -> dict[str, float]:
    """Return the costs by the names that flat records have: adapt_steps, adapt_seconds and so on."""
    return {f"adapt_{name}": value for name, value in (found or {}).items()}


def adaptation_sentence(method: str, found: Mapping[str, float]) -> str:
    """Say what an adaptation takes."""
    return (
        f"{method}: before a test each client adapts the model in {found['steps']:.4g} steps and "
        f"{found[EXECUTED] / 1e9:.3g} GFLOP, {1e3 * found['seconds']:.3g} ms here, and sends 0 bytes. The costs of "
        "rounds leave this work out."
    )


def _means(clients: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    if not clients:
        return None
    found = {name: mean([each.get(name) for each in clients]) for name in COSTS}
    return {name: value for name, value in found.items() if value is not None}
