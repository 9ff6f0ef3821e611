"""The table of docs/devices.md about eight throttled processes is that of bench/waiting.jsonl."""

from __future__ import annotations

import json

from bench.waiting import BYTES_BAR, TIME_BAR, WAITING, WAYS
from tests.sources import ROOT

RECORD = ROOT / "bench" / "waiting.jsonl"
SEEDS = 1, 2, 3


def shares(value: dict[str, float], way: str, what: str) -> list[float | None]:
    """Return by seed the share of what the run that waits took to the goal, or None where the goal was not reached."""
    pairs = [(value.get(f"seed {seed}, {way}: {what}"), value[f"seed {seed}, {WAITING}: {what}"]) for seed in SEEDS]
    return [None if ours is None else ours / theirs for ours, theirs in pairs]


def test_the_page_has_the_rows_of_the_record() -> None:
    machine, *figures = [json.loads(line) for line in RECORD.read_text().splitlines()]
    value = {each["what"]: each["value"] for each in figures}
    page = (ROOT / "docs" / "devices.md").read_text()
    for way in WAYS:
        final = ", ".join(f"{value[f'seed {seed}, {way}: final accuracy']:.1f}" for seed in SEEDS)
        parts = [shares(value, way, f"{what} to the goal") for what in ("seconds", "payload")]
        cells = [", ".join("not reached" if each is None else f"{each:.2f}" for each in part) for part in parts]
        assert f"| {way} | {final} | {cells[0]} | {cells[1]} |" in page
    asked = f"at commit {machine['machine']['commit']}, on {machine['machine']['cpu']}"
    assert asked in page
    assert "dirty" not in machine["machine"]["commit"]


def test_asynchronous_rounds_are_within_their_bars() -> None:
    figures = [json.loads(line) for line in RECORD.read_text().splitlines()][1:]
    value = {each["what"]: each["value"] for each in figures}
    for what, bar in (("seconds", TIME_BAR), ("payload", BYTES_BAR)):
        found = shares(value, "asynchronous rounds", f"{what} to the goal")
        assert all(share is not None and share <= bar for share in found), what
