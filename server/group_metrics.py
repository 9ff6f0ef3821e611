"""The entries of a round's metrics that come from the sums of its groups, in a run with secure aggregation."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from edgefl.methods.rounds.summed_reply import GroupTotal


def of_groups(totals: list[GroupTotal], left_out: AbstractSet[str]) -> dict[str, Any]:
    """Return the figures of each group that was opened, and the mean loss over their clients.

    left_out  reasons why other groups were not opened, or not formed
    """
    found = [{"clients": len(total.clients), **total.metrics()} for total in totals]
    record: dict[str, Any] = {"groups": found, **({"left_out": sorted(left_out)} if left_out else {})}
    count = sum(total["clients"] for total in found)
    if count:
        record["train_loss"] = sum(total["clients"] * total["loss"] for total in found) / count
    return record
