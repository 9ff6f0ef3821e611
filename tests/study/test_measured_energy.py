"""Joules that devices measured, added up from lines of metrics. There is a sum only if all devices measured."""

from __future__ import annotations

from typing import Any

from edgefl.study.energy_totals import measured, words


def log_record(*clients: dict[str, Any]) -> dict[str, Any]:
    return {"clients": [{"status": "on", **each} for each in clients]}


def test_joules_are_added_by_their_kind_of_source() -> None:
    found = measured([log_record({"joules_rapl": 2.5}, {"joules_hwmon": 1.0}), log_record({"joules_rapl": 0.25})])
    assert found == {"rapl": 2.75, "hwmon": 1.0}
    assert words(found) == "1 J (hwmon), 2.75 J (rapl)"


def test_whoever_was_not_taken_need_not_say_any() -> None:
    absent, late = {"status": "absent"}, {"status": "late", "joules_rapl": 9.0}
    refused = {"status": "refused", "reason": "loss=inf"}
    assert measured([log_record({"joules_rapl": 2.0}, absent, late, refused)]) == {"rapl": 2.0}


def test_a_part_of_the_sum_is_none() -> None:
    assert (
        measured([log_record({"joules_rapl": 2.0}), log_record({"joules_rapl": 2.0}, {"executed_flops": 1.0})]) is None
    )
    assert measured([log_record({"joules_rapl": 2.0}), {"round": 2}]) is None  # long past: no longer client by client
    assert measured([log_record()]) is None
    assert measured([]) is None
