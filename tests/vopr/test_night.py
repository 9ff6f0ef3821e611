"""A night of the simulator: it goes on from its record, prints the failures, and ends with the sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vopr import command, night
from tests.vopr.case import Case
from tests.vopr.disk import Disk
from tests.vopr.simulation import simulate

SMALL = ["--hours", "0.05", "--devices", "2", "--shrink", "0"]


def lines(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


@pytest.mark.parametrize("number, method", list(enumerate(night.METHODS)))
def test_a_schedule_of_each_method_holds(number: int, method: str) -> None:
    outcome = simulate(100 + number, hours=0.25, devices=4, method=method)
    assert outcome.failure is None
    assert outcome.rounds == 15  # one a minute
    assert outcome.befallen


def test_a_hundred_schedules_of_an_hour_hold(tmp_path: Path) -> None:
    assert command.main(["--night", str(tmp_path / "night.jsonl"), "--seed", "1000", "--seeds", "100"]) == 0


def test_a_night_goes_on_from_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "night.jsonl"
    assert command.main(["--night", str(record), "--seeds", "3", *SMALL]) == 0
    head, *found = lines(record)
    assert (head["hours"], head["devices"], head["training"]) == (0.05, 2, "stub")
    assert [(line["seed"], line["method"], line["failure"]) for line in found] == [
        (0, "fedspu", None),
        (1, "fedavg", None),
        (2, "scaffold", None),
    ]
    assert (
        f"all methods: 3 schedules, 0 failures, {sum(line['hours'] for line in found):.0f} h, "
        in capsys.readouterr().out
    )
    text = record.read_text()
    record.write_text("".join(text.splitlines(keepends=True)[:3]) + text.splitlines()[3][:20])  # killed while it wrote
    assert command.main(["--night", str(record), "--seeds", "4", *SMALL]) == 0
    untimed = [{**line, "cpu_s": 0} for line in lines(record)[1:]]
    assert untimed[:3] == [{**line, "cpu_s": 0} for line in found]
    assert [line["seed"] for line in untimed] == [0, 1, 2, 3]


def test_a_night_refuses_the_record_of_other_schedules(tmp_path: Path) -> None:
    record = tmp_path / "night.jsonl"
    assert command.main(["--night", str(record), "--seeds", "1", *SMALL]) == 0
    with pytest.raises(SystemExit, match=r"^python -m tests vopr: .*expected .*'devices': 3"):
        command.main(["--night", str(record), "--seeds", "1", *SMALL, "--devices", "3"])


def test_a_failure_of_a_night_is_told_and_stays_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record, rest = tmp_path / "night.jsonl", ["--seed", "0", "--hours", "0.1", "--devices", "3", "--shrink", "0"]
    with monkeypatch.context() as planted:
        planted.setattr(Disk, "sync", lambda disk, path: None)
        assert command.main(["--night", str(record), *rest]) == 1
    printed = capsys.readouterr().out
    assert "seed 0: BROKEN: device 0 ends: the server refuses: client 0 has enrolled before" in printed
    assert "repeat it with: python -m tests vopr --seed 0 --hours 0.1 --devices 3 --method " in printed
    assert ": 1 schedules, 1 failures" in printed
    assert command.main(["--night", str(record), *rest]) == 1  # nothing is left to simulate


def test_processes_find_what_one_process_finds(tmp_path: Path) -> None:
    planned = night.Night(Case(0, 0.05, 2, "fedavg"), first=0, count=4, commit="")
    found = []
    for jobs in (1, 2):
        list(night.run(planned, tmp_path / f"{jobs}.jsonl", jobs))
        found.append({line["seed"]: line["digest"] for line in lines(tmp_path / f"{jobs}.jsonl")[1:]})
    assert found[0] == found[1]
    assert len(found[0]) == 4
