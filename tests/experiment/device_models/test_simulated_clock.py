"""The clock by hand: what rounds take, who is late, gone or busy, and when the next round can begin."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgefl.experiment.device_models.device_assignment import Fleet, SimulatedDevice
from edgefl.experiment.device_models.device_profile import DAY_S, Profile
from edgefl.experiment.device_models.simulated_clock import VirtualClock
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.protocol.codec import Sizes

FAST = Profile(1e6, 1000.0, 500.0, 1e-6, 1e-3, 2e-3)
SLOW = replace(FAST, macs_per_second=1e5)
TWO = Fleet((SimulatedDevice("fast", FAST, clients=(0,)), SimulatedDevice("slow", SLOW, clients=(1,))))


def record(client: int, flops: float = 6e6, **changes: Any) -> ClientRound:
    """3 million multiply-adds, 2000 bytes down and 2000 up."""
    given = {"metrics": {"executed_flops": flops}, "down": Sizes(1900, 60, 40), "up": Sizes(2000, 0, 0), "steps": 4}
    return ClientRound(client, {}, "on", **{**given, **changes})


def close(clock: VirtualClock, *records: ClientRound) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the log record of a round says of the time, and of each client."""
    judged = [clock.judged(each).to_json() for each in records]
    return clock.closed({"clients": judged})["virtual"], judged


def begin(clock: VirtualClock, round: int = 1) -> frozenset[int] | None:
    return next(clock.offers(round))


def absent(client: int) -> ClientRound:
    return ClientRound(client, {}, "absent")


def test_a_round_lasts_as_long_as_its_slowest_and_takes_the_joules_of_all() -> None:
    """The clients take 9 s and 36 s, and 3 + 2 + 4 J each."""
    clock = VirtualClock(TWO, 2, 1, 0.0)
    assert begin(clock) is None
    time, (fast, slow) = close(clock, record(0), record(1))
    assert (fast["device"], fast["virtual_seconds"], slow["device"], slow["virtual_seconds"]) == ("fast", 9, "slow", 36)
    assert fast["virtual_joules"] == slow["virtual_joules"] == pytest.approx(9)
    assert (time["began"], time["ended"], time["joules"]) == (0, 36, pytest.approx(18))
    begin(clock, 2)
    time, _ = close(clock, record(0))
    assert (time["began"], time["ended"]) == (36, 45)


def test_an_adaptation_takes_its_work_alone_and_does_not_move_the_clock() -> None:
    """3 million multiply-adds, no message: 3 s or 30 s, and 3 J by the work. 2 W add 6 J or 60 J."""
    idle = Fleet(tuple(replace(d, profile=replace(d.profile, idle_watts=2.0, latency_s=9.0)) for d in TWO.devices))
    clock = VirtualClock(idle, 2, 1, 0.0)
    assert clock.adapted(0, 6e6, 4) == {"device": "fast", "virtual_seconds": 3, "virtual_joules": pytest.approx(9)}
    assert clock.adapted(1, 6e6, 4) == {"device": "slow", "virtual_seconds": 30, "virtual_joules": pytest.approx(63)}
    begin(clock)
    time, _ = close(clock, absent(0), absent(1))
    assert time["began"] == time["ended"] == 0


def test_the_search_for_a_mask_is_work_too() -> None:
    clock = VirtualClock(TWO, 2, 1, 0.0)
    found = clock.judged(record(0, metrics={"executed_flops": 6e6, "search_flops": 2e6})).to_json()
    assert found["virtual_seconds"] == 10


def test_at_a_deadline_exactly_the_slow_one_is_late_and_busy_until_it_has_finished() -> None:
    clock = VirtualClock(TWO, 2, 1, 30.0)
    begin(clock)
    time, (fast, slow) = close(clock, record(0), record(1))
    assert (fast["status"], slow["status"], time["ended"]) == ("on", "late", 30)
    assert begin(clock, 2) == {0}
    time, _ = close(clock, record(0))
    assert (time["began"], time["ended"]) == (30, 39)
    assert begin(clock, 3) is None
    assert close(clock, record(0))[0]["began"] == 39


def test_a_reply_at_the_deadline_is_in_time() -> None:
    clock = VirtualClock(TWO, 2, 1, 36.0)
    begin(clock)
    assert [each["status"] for each in close(clock, record(0), record(1))[1]] == ["on", "on"]


def test_a_refused_reply_stays_refused_and_is_waited_for_until_the_deadline() -> None:
    clock = VirtualClock(TWO, 2, 1, 30.0)
    begin(clock)
    time, (refused,) = close(clock, record(1, reason="it is wrong"))
    assert (refused["status"], refused["reason"], time["ended"]) == ("on", "it is wrong", 30)


def test_a_server_waits_for_an_absent_client_only_if_it_has_a_deadline() -> None:
    for deadline_s, ends in ((0.0, 9.0), (30.0, 30.0)):
        clock = VirtualClock(TWO, 2, 1, deadline_s)
        begin(clock)
        time, (_, gone) = close(clock, record(0), absent(1))
        assert time["ended"] == ends
        assert gone["device"] == "slow" and "virtual_seconds" not in gone


def test_a_round_waits_for_a_window_and_chooses_among_those_who_are_there() -> None:
    """Client 1 is there from 06:00 to 08:00. When nobody is chosen among the others, the clock goes on to it."""
    morning = replace(SLOW, available=((21_600.0, 28_800.0),))
    fleet = Fleet((SimulatedDevice("fast", FAST, clients=(0,)), SimulatedDevice("morning", morning, clients=(1,))))
    clock = VirtualClock(fleet, 2, 1, 0.0)
    assert list(clock.offers(1)) == [{0}, None]
    assert clock.expected(1, 1) == "accepted"
    assert close(clock, record(1))[0] == {"began": 21_600, "ended": 21_636, "joules": pytest.approx(9)}
    assert begin(clock, 2) is None
    assert clock.expected(2, 1) == "accepted"


def test_a_client_that_is_planned_outside_its_window_is_absent() -> None:
    fleet = Fleet(
        (
            SimulatedDevice("fast", FAST, clients=(0,)),
            SimulatedDevice("m", replace(SLOW, available=((10.0, 20.0),)), 1, (1,)),
        )
    )
    clock = VirtualClock(fleet, 2, 1, 0.0)
    assert begin(clock) == {0}
    assert (clock.expected(1, 0), clock.expected(1, 1)) == ("accepted", None)


def test_what_a_window_closes_on_is_finished() -> None:
    """It begins at 10 s and takes 36 s, in a window of 10 s."""
    fleet = Fleet((SimulatedDevice("m", replace(SLOW, available=((10.0, 20.0),))),))
    clock = VirtualClock(fleet, 1, 1, 0.0)
    assert begin(clock) is None
    time, (found,) = close(clock, record(0))
    assert (time["began"], time["ended"], found["status"]) == (10, 46, "on")
    assert begin(clock, 2) is None
    assert close(clock, record(0))[0]["began"] == DAY_S + 10


@pytest.mark.parametrize(("probability", "low", "high"), [(0.0, 0, 0), (1.0, 2000, 2000), (0.25, 420, 580)])
def test_so_many_drop_out(probability: float, low: int, high: int) -> None:
    """The bounds are for 2000 client rounds: four standard deviations at a probability of a quarter are 77."""
    clock = VirtualClock(Fleet((SimulatedDevice("a", replace(FAST, drop_out=probability)),)), 20, 7, 0.0)
    begin(clock)
    gone = [(k, t) for t in range(100) for k in range(20) if clock.expected(t, k) is None]
    assert low <= len(gone) <= high
    again = VirtualClock(Fleet((SimulatedDevice("a", replace(FAST, drop_out=probability)),)), 20, 7, 5.0)
    begin(again)
    assert gone == [(k, t) for t in range(100) for k in range(20) if again.expected(t, k) is None]


def test_a_clock_goes_on_from_the_log_records_of_earlier_rounds() -> None:
    """The records go through JSON, as a resumed run reads them, with a late client and numbers that are not binary
    fractions.
    """
    odd = Fleet(
        (
            SimulatedDevice("a", replace(FAST, macs_per_second=1.1e6 / 3)),
            SimulatedDevice("b", replace(SLOW, drop_out=0.3)),
        )
    )
    whole, log_records = VirtualClock(odd, 6, 3, 29.7), []
    for round in range(1, 8):
        there = begin(whole, round)
        planned = [client for client in range(6) if there is None or client in there]
        found = [record(k) if whole.expected(round, k) else absent(k) for k in planned]
        judged = [whole.judged(each).to_json() for each in found]
        log_records.append(whole.closed({"clients": judged}))
    assert any(each["status"] == "late" for log_record in log_records for each in log_record["clients"])
    for done in range(7):
        resumed = VirtualClock(odd, 6, 3, 29.7)
        for log_record in log_records[:done]:
            resumed.goes_on(json.loads(json.dumps(log_record)))
        begin(resumed, done + 1)
        unjudged = {**log_records[done]}
        del unjudged["virtual"]
        assert resumed.closed(unjudged) == log_records[done]
