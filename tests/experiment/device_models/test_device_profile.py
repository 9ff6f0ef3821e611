"""A modelled device's seconds and joules, by hand on round numbers, its hours, and its refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.experiment.device_models.device_profile import DAY_S, Profile

ROUND = Profile(
    macs_per_second=1e6,
    down_bytes_per_second=1000.0,
    up_bytes_per_second=500.0,
    joules_per_mac=1e-6,
    joules_per_down_byte=1e-3,
    joules_per_up_byte=2e-3,
)
COUNTS = st.integers(0, 10**12)


def test_seconds_and_joules_by_hand() -> None:
    """Training takes 3 s and 3 J, down 2 s and 2 J, up 4 s and 4 J."""
    assert ROUND.seconds(3e6, 2000, 2000) == 3 + 2 + 4
    assert ROUND.joules(3e6, 2000, 2000) == pytest.approx(3 + 2 + 4)
    assert ROUND.seconds(0, 0, 0) == ROUND.joules(0, 0, 0) == 0


def test_each_message_that_carries_something_has_its_latency_and_its_joules() -> None:
    slow = replace(ROUND, latency_s=0.5, joules_per_message=10.0)
    assert [slow.seconds(0, *each) for each in ((0, 0), (1000, 0), (0, 500), (1000, 500))] == [0, 1.5, 1.5, 3]
    assert [slow.joules(0, *each) for each in ((0, 0), (1000, 0), (0, 500), (1000, 500))] == [0, 11, 11, 22]


def test_steps_take_time_and_idle_power_is_drawn_all_through_a_round() -> None:
    """9 s and 4 steps of .25 s: 10 s at 2 W, beside the 9 J."""
    board = replace(ROUND, overhead_s_per_step=0.25, idle_watts=2.0)
    assert board.seconds(3e6, 2000, 2000, steps=4) == 10
    assert board.joules(3e6, 2000, 2000, steps=4) == pytest.approx(20 + 9)


@given(macs=COUNTS, down=COUNTS, up=COUNTS, more=st.integers(1, 10**9))
def test_more_of_anything_never_costs_less(macs: int, down: int, up: int, more: int) -> None:
    board = replace(ROUND, latency_s=0.1, joules_per_message=1.0, idle_watts=1.0)
    for larger in ((macs + more, down, up), (macs, down + more, up), (macs, down, up + more)):
        assert board.seconds(*larger) >= board.seconds(macs, down, up)
        assert board.joules(*larger) >= board.joules(macs, down, up)


def test_hours_by_hand() -> None:
    """The hours are from 20:00 to 06:00, and from 12:00 to 13:00, on any day."""
    night = replace(ROUND, available=((72_000.0, 21_600.0), (43_200.0, 46_800.0)))
    there = {0: True, 21_599: True, 21_600: False, 43_199: False, 43_200: True, 46_800: False, 72_000: True}
    for day in (0, 1, 400):
        for second, is_there in there.items():
            at = day * DAY_S + second
            assert (night.opens(at) == at) == is_there, at
    assert night.opens(21_600) == 43_200
    assert night.opens(50_000) == 72_000
    assert ROUND.opens(12.5) == 12.5


def test_a_window_that_is_over_opens_on_the_next_day() -> None:
    morning = replace(ROUND, available=((3600.0, 7200.0),))
    assert morning.opens(7200.0) == DAY_S + 3600
    assert replace(ROUND, available=((0.0, DAY_S),)).opens(5.5) == 5.5


@given(begin=st.floats(0, DAY_S - 1), lasts=st.floats(0.01, DAY_S / 2), at=st.floats(0, 1e8))
def test_what_opens_at_a_moment_is_there_then_and_within_a_day(begin: float, lasts: float, at: float) -> None:
    end = (begin + lasts) % DAY_S
    opening = replace(ROUND, available=((begin, end),)).opens(at) if begin != end else at
    assert at <= opening <= at + DAY_S
    assert begin == end or replace(ROUND, available=((begin, end),)).opens(opening) == opening


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"macs_per_second": 0.0}, "macs_per_second = 0.0; expected a finite number above 0"),
        ({"up_bytes_per_second": float("inf")}, "up_bytes_per_second = inf; expected a finite number above 0"),
        ({"latency_s": -1.0}, "latency_s = -1.0; expected a finite number >= 0"),
        ({"joules_per_mac": float("nan")}, "joules_per_mac = nan; expected a finite number >= 0"),
        ({"drop_out": 1.5}, "drop_out = 1.5; expected a probability from 0 to 1"),
        ({"available": ((0.0, 90_000.0),)}, r"available has \[0.0, 90000.0\]; expected two different seconds"),
        ({"available": ((5.0, 5.0),)}, r"available has \[5.0, 5.0\]; expected two different seconds"),
    ],
)
def test_what_no_device_can_have_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(ROUND, **changes)  # type: ignore[arg-type]
