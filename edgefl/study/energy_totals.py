"""The sum of the joules that devices measured, by kind of source. Modelled joules are not counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgefl.methods.rounds.client_round import JOULES


def measured(log_records: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return the joules by kind of source, over all accepted replies in these rounds' lines of metrics.

    Return None unless every such reply states its joules, because a part of a sum would pass for the whole. Return None
    also if the lines, written by old versions, do not list the clients.
    """
    if not all("clients" in log_record for log_record in log_records):
        return None
    records = [each for log_record in log_records for each in log_record["clients"] if each["status"] != "absent"]
    taken = [each for each in records if "reason" not in each and each["status"] != "late"]
    found: dict[str, float] = {}
    for record in taken:
        said = {name.removeprefix(JOULES): value for name, value in record.items() if name.startswith(JOULES)}
        if not said:
            return None
        for kind, value in said.items():
            found[kind] = found.get(kind, 0.0) + value
    return found or None


def words(found: Mapping[str, float]) -> str:
    """Write the joules as a cell of a table: 12.3 J (rapl)."""
    return ", ".join(f"{value:.4g} J ({kind})" for kind, value in sorted(found.items()))
