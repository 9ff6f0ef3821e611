"""The figures of docs/scale.md on registered clients are those of bench/registered.jsonl, and the bench chooses devices
that the draws need.
"""

from __future__ import annotations

import json

import pytest

from bench import registered
from bench.scaled import Request
from edgefl import rng
from tests.sources import ROOT

RECORD = ROOT / "bench" / "registered.jsonl"
LABELS = {
    "all": "`--select all`",
    "enrolled": "`--select enrolled`, 110,000 clients of which 100,000 have registered",
    "seen": "`--select seen:60`",
    "asynchronous": "`--select seen:60 --buffer 50`",
}


@pytest.mark.parametrize("mode", registered.MODES)
def test_the_page_says_what_the_record_has(mode: str) -> None:
    machine, *figures = [json.loads(line) for line in RECORD.read_text().splitlines()]
    value = {each["what"]: each["value"] for each in figures}
    few, many = (f"{mode}, {count}, 1,000 connected" for count in ("1,000 registered", "100,000 registered"))
    ratio = value[f"{mode}: 100,000 registered over 1,000"]
    costs = [f"{value[f'{how}: processor, an accepted reply']:.2f} ms" for how in (few, many)]
    peaks = [value[f"{how}: resident, largest"] for how in (few, many)]
    row = " | ".join([LABELS[mode], *costs, f"{ratio:.2f}", *(f"{peak:.0f} MB" for peak in peaks)])
    page = (ROOT / "docs" / "scale.md").read_text()
    assert f"| {row} |" in page
    assert machine["machine"]["commit"] in page and "dirty" not in machine["machine"]["commit"]
    assert ratio <= registered.BAR and max(peaks) <= registered.RESIDENT_MB


def test_the_devices_of_every_draw_are_connected() -> None:
    request = Request("", 500, 20, 4, 1)
    found = registered.connected(request, 100)
    assert len(set(found)) == len(found) == 100
    seed = registered.experiment(request).seed
    for round in range(1, 5):
        assert set(rng.stream(seed, rng.SELECT, round=round).sample(500, 20).tolist()) <= set(found)
