"""The bench of secure aggregation: random rounds from the command line, the timed device, and aimed SIGKILLs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from bench.secure import command, fatal_step, random_rounds
from bench.secure.device_time import DEVICE, VALUES, DeviceRound
from bench.secure.fatal_step import Aim
from bench.secure.killed_processes import KilledProcesses
from bench.secure.random_rounds import WrongSumError
from edgefl.deployment.device.device_state import DeviceState
from edgefl.protocol.secure.group_terms import group_terms
from edgefl.protocol.secure.member_state import MemberState, Stage
from edgefl.protocol.secure.roster import Roster
from edgefl.server.events import GroupEvent
from edgefl.server.store import Store

ROOT = Path(__file__).resolve().parents[2]


def test_the_command_counts_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["rounds", "--rounds", "2", "--seed", "1"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["what"], row["rounds"], row["first_seed"]) == ("rounds", 2, 1)


def test_a_sum_that_is_wrong_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_rounds.PlayedRound, "expected", lambda played: np.zeros(1, np.uint32))
    with pytest.raises(WrongSumError, match="seed 1: opened"):
        command.main(["rounds", "--rounds", "1", "--seed", "1"])


def test_the_timed_device_does_what_the_played_one_did() -> None:
    device = DeviceRound.of(10, 1, is_late=False)
    assert device.counts() == {"keys": 10, "shares": 10, "vectors": 9, "consents": 8, "openings": 7}
    vector = device.played.vectors[DEVICE].copy()
    device.take_part(vector)
    masked = [each for each in device.played.transcript if len(each) == 4 * VALUES]
    assert vector.tobytes() == masked[DEVICE]
    assert 1 < device.bytes_times() < 1.05


def test_a_device_ends_after_its_step_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    saved, ends = list[bytes](), list[bytes]()
    monkeypatch.setattr(DeviceState, "keep_group", lambda state, data: saved.append(data))
    fatal_step.end_device_after(Aim(4, round=2), lambda: ends.append(saved[-1]))
    terms = group_terms(Roster("home", 1, {}), "run", 2, "draw", [0, 1, 2], 5, 32, 0)
    states = [MemberState(0, replace(terms, round=round), b"", stage) for round in (1, 2) for stage in Stage]
    for state in states:
        DeviceState.keep_group(None, state.to_bytes())  # type: ignore[arg-type]
    assert ends == [state.to_bytes() for state in states if (state.terms.round, state.stage) == (2, Stage.CONSENTED)]


def test_a_server_ends_after_the_close_of_a_step_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    saved, ends = list[GroupEvent](), list[GroupEvent]()
    monkeypatch.setattr(Store, "save", lambda store, records: saved.extend(records))
    fatal_step.end_server_after(Aim(2, round=3), lambda: ends.append(saved[-1]))
    kinds = "closed", "formed", "step", "closed", "step", "closed", "closed"  # the first close is of an older process
    for place, kind in enumerate(kinds):
        Store.save(None, [GroupEvent(3, place, "a", kind)])  # type: ignore[arg-type]
    assert [event.place for event in ends] == [5]


def test_kills_are_aimed_at_every_step_of_devices_that_come_back_or_are_lost_and_of_the_server() -> None:
    killed = KilledProcesses(None, clients=30, rounds=20, kills=40, step_s=5.0, seed=0)  # type: ignore[arg-type]
    devices = [f"device {client} after step {step}" for client, step in enumerate([1, 2, 3, 4, 5] * 2)]
    assert killed.missed == [*devices, *(f"the server after step {step}" for step in (1, 2, 3, 4, 5))]


def test_the_page_has_the_figures_of_the_last_served_run() -> None:
    rows = [json.loads(line) for line in (ROOT / "bench/secure/record.jsonl").read_text().splitlines()]
    row = [row for row in rows if row["what"] == "served"][-1]
    page = " ".join((ROOT / "docs/secure-aggregation.md").read_text().split())
    masked, not_opened = row["outcomes"]["masked"], row["outcomes"]["not-opened"]
    assert f"Its {masked + not_opened} replies were {masked} times `masked`, and {not_opened} times" in page
    assert (
        f"{row['clients']} devices in five tiers, TLS, keys, a roster, {row['rounds']} rounds and {row['kills']}"
        in page
    )
    for step in fatal_step.STEPS:
        assert [row[f"{who}_after_step_{step}"] for who in ("device_killed", "device_lost", "server_killed")] == [1] * 3
    devices, server = row["device_killed_at_random"], row["server_killed_at_random"]
    assert f"{devices} other SIGKILLs of devices and {server} of the server came at random times." in page
