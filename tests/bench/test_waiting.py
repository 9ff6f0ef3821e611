"""When a run has reached a goal, and what three ways of running are compared by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.waiting import WAITING, WAYS, Curve, _compared, curve


def test_the_curve_adds_up_seconds_and_bytes(tmp_path: Path) -> None:
    lines = [{"evaluation": {"personal": {"accuracy": each}}} for each in (0.25, 0.75)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    parts = {"values": 30, "index": 8, "header": 2}
    found = curve([{"seconds": each, "down": parts, "up": {**parts, "index": 0}} for each in (1.5, 2.0)], tmp_path)
    assert found == Curve([0.25, 0.75], [1.5, 3.5], [72, 144])
    assert (found.at(0.5), found.at(0.25), found.at(0.8)) == ((3.5, 144), (1.5, 72), None)


def test_a_run_that_waits_sets_the_bars_of_an_asynchronous_run() -> None:
    curves = dict.fromkeys(WAYS, Curve([0.1, 0.9], [1.0, 4.0], [10, 1_000_000]))
    curves["over-selected rounds"] = Curve([0.1, 0.8], [1.0, 2.0], [10, 20])
    rows = {each.what: each for each in _compared("seed 1", curves)}
    seconds, size = (rows[f"seed 1, asynchronous rounds: {what} to the goal"] for what in ("seconds", "payload"))
    assert (seconds.value, seconds.bar, size.value, size.bar) == pytest.approx((4.0, 2.0, 1.0, 1.2))
    assert rows[f"seed 1, {WAITING}: seconds to the goal"].bar is None
    assert rows["seed 1, over-selected rounds: largest accuracy less the goal"].value == pytest.approx(-9)
