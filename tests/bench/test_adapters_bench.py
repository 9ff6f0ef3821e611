"""The bench of adapters: its record, the tables of docs/adapters.md that are made of it, and what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.adapters import quantized, served_gpt2, table
from bench.adapters.command import PARTS, main, read, write

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


def test_the_tables_of_the_page_are_those_of_the_record() -> None:
    page, rows = PAGE.read_text("utf-8"), read()
    assert table.limits(rows) in page
    assert table.served(rows) in page
    assert table.quantized(rows) in page
    for figure in (*table.step(rows), table.loading(rows)):
        assert figure in page


def test_limits_are_kept_with_equal_bits_and_rounds_send_values() -> None:
    rows = read()
    for row in rows:
        if row["part"] in ("limits", "mobilenet"):
            assert row["same_bits"] == (row["micro_batch"] == 0)
            assert row["held_beside"] <= (row["limit"] or row["held_beside"])
        if row["part"].startswith("served"):
            assert row["replayed"]
            assert row["as_simulated"]
            assert max(row[way]["over_values"] for way in ("down", "up")) <= 1.02
    assert {row["part"] for row in rows} == set(PARTS)


def test_quantized_bases_take_half_and_a_quarter_and_keep_their_bars() -> None:
    rows = {row["name"]: row for row in read() if row["part"] == "quantized"}
    for name, size in quantized.SIZES.items():
        wide, half, quarter = (rows[f"{name}, {base}"] for base in quantized.BASES)
        assert half["base"] <= 0.51 * wide["base"]
        assert quarter["base"] <= 0.26 * wide["base"]
        for row in (wide, half, quarter):
            assert row["arena"] + row["packing"] <= row["limit"] == size.limit
            assert row["resident_beside"] <= {"gpt2": 60e6, "gemma": 80e6}[size.case]
            assert row["load_peak"] <= row["base"] + 60e6


def test_a_served_base_is_held_once() -> None:
    rows = [row for row in read() if row["part"] == "served_gpt2"]
    assert [row["name"] for row in rows] == list(served_gpt2.LIMITS)
    for row in rows:
        assert row["device_peak"] <= row["base_bytes"] + 350e6
        assert row["server_peak"] <= 2 * row["base_bytes"]
        assert row["load_peak"] <= row["base_bytes"] + 100e6


def test_a_row_takes_the_place_of_its_former_row(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    for value in (1, 2):
        write({"part": "step", "name": "a", "value": value}, file)
        write({"part": "step", "name": "b", "value": value}, file)
    assert [(row["name"], row["value"]) for row in read(file)] == [("a", 2), ("b", 2)]
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 2


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--parts", "steps"])
    expected = ", ".join(PARTS)
    assert f"--parts steps; expected some of {expected}" in capsys.readouterr().err
