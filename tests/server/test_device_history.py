"""Rounds and devices added up from run.db: numbers that can be counted by hand from made_run's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.errors import RunError
from edgefl.server.device_history import WINDOW, DeviceHistory
from edgefl.server.device_rows import device_rows, waited_for
from edgefl.server.live_file import STALE_S, read_live
from edgefl.server.run_view import RunView
from tests.server import made_run


def counted(client: int, outcome: str, rounds: int) -> int:
    return sum(made_run.outcome(client, round) == outcome for round in range(1, rounds + 1))


@pytest.mark.parametrize("rounds", [1, 6, WINDOW, WINDOW + 9])
def test_replies_are_counted_by_client_and_outcome(tmp_path: Path, rounds: int) -> None:
    made_run.made_run(tmp_path, clients=6, rounds=rounds)
    history = DeviceHistory(tmp_path)
    for client in range(6):
        for outcome in ("accepted", "late", "absent", "refused"):
            assert history.devices[client].count(outcome) == counted(client, outcome, rounds), (client, outcome)
    assert history.closed == rounds
    assert history.done


def test_in_six_rounds_of_four_clients_client_0_is_absent_once_and_accepted_five_times(tmp_path: Path) -> None:
    made_run.made_run(tmp_path)
    found = DeviceHistory(tmp_path).devices[0]
    assert {outcome: found.count(outcome) for outcome in ("accepted", "late", "absent", "refused")} == {
        "accepted": 5,
        "late": 0,
        "absent": 1,  # in round 4
        "refused": 0,
    }
    assert found.median_s == 1.0
    assert found.joules == {"rapl": 2.5}
    assert found.accuracy == 0.5
    assert str(found.trouble) == "round 4: no reply by the time the round was closed"


def test_the_last_trouble_has_its_reason(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, rounds=5)
    found = DeviceHistory(tmp_path).devices[3]  # refused in rounds 1 and 5
    assert str(found.trouble) == "round 5: refused: reply of client 3 is not finite"


def test_a_second_look_reads_what_is_new_and_gives_what_a_first_look_gives(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, clients=5, rounds=WINDOW + 4, done=False)
    history = DeviceHistory(tmp_path)
    assert not history.look()
    for round in range(WINDOW + 5, WINDOW + 9):
        made_run.close_round(tmp_path, round, range(5), False, 5)
        assert history.look()
    fresh = DeviceHistory(tmp_path)
    assert history.rounds == fresh.rounds
    for client in range(5):
        for outcome in ("accepted", "late", "absent", "refused"):
            assert history.devices[client].count(outcome) == fresh.devices[client].count(outcome)
        assert history.devices[client].seconds == fresh.devices[client].seconds
        assert str(history.devices[client].trouble) == str(fresh.devices[client].trouble)


def test_a_rounds_totals(tmp_path: Path) -> None:
    made_run.made_run(tmp_path)
    found = DeviceHistory(tmp_path).rounds
    assert [each["round"] for each in found] == [1, 2, 3, 4, 5, 6]
    assert found[0]["replies"] == {"accepted": 1, "late": 1, "refused": 1, "absent": 1}
    assert (found[0]["down"], found[0]["up"], found[0]["train_loss"]) == (1000, 1000, 2.0)
    assert found[0]["evaluation"] is None
    assert found[1]["evaluation"]["personal"] == {"accuracy": 0.52, "loss": 0.5}


def test_rows_of_a_running_run_say_what_each_device_does(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, rounds=2, done=False)
    made_run.open_round(tmp_path, 3, (0, 1, 2), answered=(0,))
    state = made_run.alive(tmp_path, 3, {0: "replied", 1: "training", 2: "awaited, away", 3: "idle"})
    rows = device_rows(DeviceHistory(tmp_path), read_live(tmp_path), 5, state.time)
    assert [row.doing for row in rows] == ["replied", "training", "awaited, away", "idle", "not enrolled"]
    assert [row.connected for row in rows] == [True, True, False, True, False]
    assert [row.last_seen_s for row in rows] == [3.0, 4.0, 5.0, 6.0, None]
    assert waited_for(rows) == [1, 2]


def test_a_server_that_says_nothing_for_long_has_nobody_connected(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, rounds=2, done=False)
    state = made_run.alive(tmp_path, 3, {0: "training", 1: "idle"})
    rows = device_rows(DeviceHistory(tmp_path), read_live(tmp_path), 4, state.time + STALE_S)
    assert [row.connected for row in rows] == [False, False, False, False]
    assert waited_for(rows) == []


def test_a_device_that_refused_says_why(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, rounds=2, done=False)
    made_run.refuse(tmp_path, 1, "round 3 takes 9 MB; this device has 8 MB")
    made_run.alive(tmp_path, 3, {1: "refused"})
    view = RunView(tmp_path)
    view.look(read_live(tmp_path).time)  # type: ignore[union-attr]
    assert (view.rows[1].doing, view.rows[1].why) == ("refused", "round 3 takes 9 MB; this device has 8 MB")


def test_a_run_without_a_live_file_says_nothing_of_connections(tmp_path: Path) -> None:
    made_run.made_run(tmp_path)
    view = RunView(tmp_path)
    view.look(0.0)
    assert [row.connected for row in view.rows] == [None] * 4
    assert view.facts()["phase"] == "over"
    assert view.facts()["waiting_for"] == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "time": 1}', "null"])
def test_a_live_file_that_is_none_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "live.json").write_text(text)
    assert read_live(tmp_path) is None


def test_a_directory_without_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no served run \(run.db is missing\)"):
        RunView(tmp_path)
