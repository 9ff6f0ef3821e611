"""The simulator of a federation: a seed repeats itself to the bit, its disk forgets, and a broken promise is found."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from edgefl.protocol.wire.messages import Verdict
from edgefl.server.events import Enrolment, ReplyJudged, RoundOpened
from edgefl.server.store import Store
from tests.server.played import trained
from tests.sources import ROOT
from tests.vopr import command
from tests.vopr.case import Case
from tests.vopr.disk import Disk
from tests.vopr.ledger import BrokenPromiseError, Ledger
from tests.vopr.mutants import MUTANTS
from tests.vopr.outcome import Outcome
from tests.vopr.schedule import Schedule
from tests.vopr.shrinking import kind
from tests.vopr.simulation import simulate, simulated

FOUND = ROOT / "tests/vopr/mutants/found.jsonl"
POWER_CUTS = 160


def told(outcome: Outcome) -> tuple[str | None, str, int]:
    return outcome.failure, outcome.digest, outcome.rounds


@pytest.mark.parametrize("method, seed", [("fedavg", 8), ("fedavg", 10), ("fedspu", 7)])
def test_a_seed_repeats_itself_and_keeps_every_promise(method: str, seed: int) -> None:
    """In seed 10 the server says which of its folders is on a full disk, and the folder is another each time."""
    first, again = (simulate(seed, hours=0.1, devices=3, method=method) for _ in range(2))
    assert told(first) == told(again)
    assert first.failure is None
    assert first.rounds == 6  # one a minute
    assert first.crashes > 0


@pytest.mark.parametrize(
    "seed, devices",
    [(5, 1), (73, 2)],
    ids=["a frame is damaged on its way", "a disk is full while a device starts"],
)
def test_a_seed_that_found_a_fault_holds(seed: int, devices: int) -> None:
    assert simulate(seed, hours=0.25, devices=devices, method="fedavg").failure is None


def test_a_round_that_has_begun_goes_on_though_an_operator_wants_more_clients() -> None:
    """The server judged a reply late that came while the resumed round 1 waited, and then waited for that reply."""
    faults = (9, 20, 31, 37, 60, 67, 72, 74, 87)
    assert simulated(Case(264, 0.15, 4, "fedspu", kept=faults, often=3.0)).failure is None


def test_the_record_of_what_was_found_names_seeds_that_the_command_takes() -> None:
    for line in (ROOT / "tests" / "vopr" / "found.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert row["where"] in ("edgefl", "simulator")
        assert re.fullmatch("[0-9a-f]{8}", row["mended"])
        for name in row.keys() & {"arguments", "now"}:
            assert command._options(row[name].split()).seed >= 0


def test_every_mutant_has_its_place_in_todays_sources() -> None:
    for mutant in MUTANTS:
        compile(mutant.applied((ROOT / mutant.file).read_text()), mutant.file, "exec")
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 40
    recorded = [json.loads(line)["mutant"] for line in FOUND.read_text().splitlines()]
    assert len(set(recorded)) == len(recorded)
    assert set(recorded) <= names


def test_the_page_has_the_figures_of_the_records() -> None:
    page = " ".join((ROOT / "docs/architecture.md").read_text().split())
    trials = [json.loads(line) for line in FOUND.read_text().splitlines()]
    missed = [trial["mutant"] for trial in trials if trial["seed"] is None]
    assert f"all {len(trials)} mistakes were tried, and {len(trials) - len(missed)} were found" in page
    assert all(f"`{name}`" in page for name in missed)
    *_, before, after = (list(rows) for _, rows in groupby(_speeds(), lambda row: row["commit"]))
    for rows, words in (
        (after, "A second of CPU simulates {:.2f} virtual hours"),
        (before, "It simulated {:.2f} hours"),
    ):
        assert words.format(sum(row["hours"] for row in rows) / sum(row["cpu_s"] for row in rows)) in page


def _speeds() -> list[dict[str, Any]]:
    """Return the rows of the last comparison of two trees, sorted by tree."""
    rows = [json.loads(line) for line in (ROOT / "tests/vopr/speed.jsonl").read_text().splitlines()]
    return sorted(rows[-14:], key=lambda row: row["tree"] == "agents read once")


def test_events_come_in_the_order_of_their_times_and_then_of_their_making() -> None:
    schedule, seen = Schedule(0), list[str]()
    for time, name in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        schedule.at(time, lambda name=name: seen.append(name))
    while schedule.step():
        pass
    assert seen == ["a", "b", "c"]
    assert schedule.now == 2.0


def test_an_event_that_is_taken_back_does_not_come_nor_stay() -> None:
    schedule, seen = Schedule(0), list[int]()
    numbers = [schedule.at(1.0 + each, lambda each=each: seen.append(each)) for each in range(10)]
    for number in numbers[1:8]:
        schedule.drop(number)
    assert len(schedule._queue) <= 6
    while schedule.step():
        pass
    assert seen == [0, 8, 9]


def left(folder: Path, number: int, is_synced: bool, names_are_synced: bool) -> bytes | None:
    """Return what a kill, and then a loss of power, leave of a file that replaces one with the content b"old"."""
    disk = Disk(folder / str(number), random.Random(number))
    for name, content in (("file", b"old"), (".file.tmp", b"new")):
        (disk.home / name).write_bytes(content)
        if name == "file":
            disk.sync(disk.home / name)
            disk.sync(disk.home)
    if is_synced:
        disk.sync(disk.home / ".file.tmp")
    disk.keep(disk.home / "file")
    os.replace(disk.home / ".file.tmp", disk.home / "file")
    disk.renamed(disk.home / ".file.tmp", disk.home / "file")
    if names_are_synced:
        disk.sync(disk.home)
    disk.turn_over(loses_power=False)
    disk.turn_over(loses_power=True)
    file = disk.home / "file"
    return file.read_bytes() if file.exists() else None


@pytest.mark.parametrize(
    "is_synced, names_are_synced, possible",
    [
        (True, True, {b"new"}),
        (True, False, {b"old", b"new"}),
        (False, True, {b"", b"n", b"ne", b"new", b"\0\0\0"}),
        (False, False, {b"old", b"", b"n", b"ne", b"new", b"\0\0\0"}),
    ],
)
def test_a_loss_of_power_leaves_what_posix_allows(
    tmp_path: Path, is_synced: bool, names_are_synced: bool, possible: set[bytes]
) -> None:
    assert {left(tmp_path, number, is_synced, names_are_synced) for number in range(POWER_CUTS)} == possible


def test_a_loss_of_power_keeps_what_was_synced_before_more_was_added(tmp_path: Path) -> None:
    """512 bytes are synced, and 600 bytes follow: a first part of them, or one of two sectors with zeros."""
    first, second, third = b"a" * 512, b"b" * 512, b"c" * 88
    found = set[bytes]()
    for draw in range(200):
        disk = Disk(tmp_path / str(draw), random.Random(draw))
        (disk.home / "file").write_bytes(first)
        disk.sync(disk.home / "file")
        disk.sync(disk.home)
        (disk.home / "file").write_bytes(first + second + third)
        disk.turn_over(loses_power=True)
        found.add((disk.home / "file").read_bytes())
    assert all(content.startswith(first) for content in found)
    whole = {first, first + second + third}
    assert found > {*whole, first + bytes(512) + third, first + second + bytes(88)}
    torn = {content for content in found - whole if len(content) == 1112}
    assert torn == {first + bytes(512) + third, first + second + bytes(88), first + bytes(600)}


def test_a_verdict_has_to_be_in_the_log_and_stays_as_it_was(tmp_path: Path) -> None:
    ledger, store = Ledger(), Store(tmp_path)
    store.save([Enrolment(0, 1.0), RoundOpened(1, (0,))])
    with pytest.raises(BrokenPromiseError, match="heard accepted on round 1; the server's log has nothing"):
        ledger.tell(0, Verdict(1, "accepted", ""), store)
    store.save([ReplyJudged(1, 0, "accepted", "", trained(1))])
    ledger.tell(0, Verdict(1, "accepted", ""), store)
    with pytest.raises(BrokenPromiseError, match="hears late on round 1; it has heard accepted before"):
        ledger.tell(0, Verdict(1, "late", ""), store)
    ledger.resumed(store.load(), store)
    store.close()


def test_a_disk_that_keeps_nothing_breaks_a_promise_by_one_loss_of_power(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Disk, "sync", lambda disk, path: None)
    assert command.main(["--seed", "1", "--seeds", "20", "--devices", "3", "--hours", "0.1", "--method", "fedavg"]) == 1
    printed = capsys.readouterr().out
    seed = re.search(r"seed (\d+): BROKEN", printed)
    assert seed is not None
    again = f"python -m tests vopr --seed {seed[1]} --hours 0.1 --devices 3 --method fedavg --training stub"
    assert f"repeat it with: {again}\n" in printed
    alone = re.search(r"[0-9]+ of its [0-9]+ faults break the promise, too:\n", printed)
    assert alone is not None
    *_, smallest, repeat = printed.splitlines()
    assert repeat.startswith(f"repeat it with: {again}")
    assert command.main([*repeat.split()[7:], "--shrink", "0"]) == 1
    assert untimed(capsys.readouterr().out.splitlines()[0]) == untimed(smallest)


def untimed(line: str) -> str:
    """Return a line about a seed without the CPU time, which is another each time."""
    return re.sub(r"[0-9.]+ s of CPU", "", line)


def test_failures_of_one_kind_differ_in_numbers_only() -> None:
    first = "the server waits for nobody, and the devices [1, 12, 3] have not heard of the end"
    assert kind(first) == kind(first.replace("[1, 12, 3]", "[4]")) != kind(first.replace("nobody", "client 4"))
    assert kind("runs/1c83ab2b83f8 is of round 3") == kind("runs/3d94bc3c94a9 is of round 12")


@pytest.mark.parametrize(("seed", "method", "transport"), [(11, "fedspu", "plain"), (41, "fedspu-es", "tls")])
def test_a_schedule_of_asynchronous_rounds_keeps_every_promise(seed: int, method: str, transport: str) -> None:
    outcome = simulated(Case(seed, 0.3, 6, method, transport=transport, buffer=2))
    assert outcome.failure is None, "\n".join([*outcome.trace, outcome.failure or ""])
    assert outcome.rounds >= (2 if method.endswith("-es") else 10)
    assert "--buffer 2" in outcome.case.command
