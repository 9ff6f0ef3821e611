"""Deadlines that follow the times of replies, when to remind people, and who was there lately."""

from __future__ import annotations

import pytest

from edgefl.server import client_bitmap
from edgefl.server.client_choice import ClientChoice
from edgefl.server.client_tags import ClientTags
from edgefl.server.presence import Presence
from edgefl.server.reminder import Reminder
from edgefl.server.round_deadline import AdaptiveDeadline, RoundDeadline

AUTO = AdaptiveDeadline()


def deadlines_after(*times: float, deadlines: RoundDeadline | None = None) -> RoundDeadline:
    """Return the deadlines after rounds in which one client took so many seconds."""
    deadlines = deadlines or RoundDeadline(AUTO)
    for round, took in enumerate(times, 1):
        deadlines.begin(round, 100.0)
        deadlines.ask(round, 7)
        deadlines.heard(round, 7, 100.0 + took)
    return deadlines


def test_a_deadline_that_was_set_stays() -> None:
    assert deadlines_after(1.0, 2.0, deadlines=RoundDeadline(10.0)).limit_s == 10.0
    assert deadlines_after(1.0, 2.0, deadlines=RoundDeadline(None)).limit_s is None


def test_before_any_reply_there_is_an_hour() -> None:
    assert RoundDeadline(AUTO).limit_s == 3600.0


@pytest.mark.parametrize(
    ("took", "expected"), [(0.1, 60.0), (6.0, 60.0), (30.0, 300.0), (1800.0, 3600.0), (3000.0, 6000.0)]
)
def test_ten_times_what_replies_took_within_bounds(took: float, expected: float) -> None:
    assert deadlines_after(took, took).limit_s == expected


def test_one_slow_reply_among_many_does_not_count() -> None:
    assert deadlines_after(*[20.0] * 99, 3000.0).limit_s == 200.0
    assert deadlines_after(*[20.0] * 9, 300.0).limit_s == 3000.0


def test_a_device_that_is_always_late_makes_rounds_longer() -> None:
    """Rounds of 60 s, and a client that takes 100: its late replies count."""
    deadlines = deadlines_after(1.0)
    assert deadlines.begin(2, 0.0) == 60.0
    deadlines.ask(2, 3)
    deadlines.begin(3, 60.0)
    deadlines.heard(2, 3, 100.0)
    assert deadlines.limit_s == 1000.0


def test_a_device_that_was_away_for_a_day_does_not_make_a_round_a_day_long() -> None:
    deadlines = deadlines_after(1.0)
    deadlines.begin(2, 0.0)
    deadlines.ask(2, 3)
    deadlines.heard(2, 3, 86400.0)
    assert deadlines.limit_s == 1200.0


def test_what_was_ready_before_a_restart_says_nothing() -> None:
    """The reply comes at once from a device that had it, and no request in this process caused it."""
    deadlines = RoundDeadline(AUTO, last_s=900.0)
    assert deadlines.begin(5, 0.0) == 900.0
    deadlines.heard(5, 1, 0.1)
    assert deadlines.limit_s == 900.0
    deadlines.ask(5, 2)
    deadlines.heard(5, 2, 20.0)
    deadlines.heard(5, 2, 500.0)
    assert deadlines.limit_s == 200.0


def test_who_left_counts_for_a_while() -> None:
    presence = Presence([1, 2], 0.0)
    presence.hear(2, 30.0)
    presence.hear(3, 30.0)
    assert presence.lately(60.0, {1}, 60.0) == {1, 2, 3}
    assert presence.lately(60.0, {1}, 90.0) == {1, 2, 3}
    assert presence.lately(60.0, {1}, 90.5) == {1}
    assert presence.lately(60.0, set(), 90.5) == frozenset()


def test_a_limit_of_a_condition_changes_nothing_but_the_steps() -> None:
    presence, tags = Presence([1, 2, 5], 0.0), ClientTags({})
    presence.hear(2, 30.0)
    limited, open_ended = ClientChoice.parse("seen <= 60"), ClientChoice.parse("not seen > 60")
    assert (limited.within_s, open_ended.within_s) == (60.0, None)
    for now, expected in ((60.0, {1, 2, 5}), (60.5, {1, 2}), (90.0, {1, 2}), (90.5, {1}), (91.5, {1})):
        for choice in (limited, open_ended):
            assert presence.fulfilling(choice, tags, {1}, now) == expected


def test_a_wait_is_said_ever_more_rarely_and_a_new_one_afresh() -> None:
    reminder = Reminder()
    said = [now for now in range(0, 400, 5) if reminder.is_due("round 1", now)]
    assert said == [30, 90, 210]
    assert [now for now in range(400, 500, 5) if reminder.is_due("round 2", now)] == [430, 490]


@pytest.mark.parametrize("clients", [(), (0,), (7, 8), (9999,), range(10_000)])
def test_candidates_come_back(clients: tuple[int, ...]) -> None:
    assert client_bitmap.unpack(client_bitmap.pack(frozenset(clients))) == frozenset(clients)


def test_candidates_of_many_clients_take_few_bytes() -> None:
    assert len(client_bitmap.pack(frozenset(range(10_000)))) < 30
    assert len(client_bitmap.pack(frozenset(range(0, 10_000, 3)))) < 60


def test_bytes_that_are_no_candidates_are_an_error() -> None:
    with pytest.raises(ValueError, match="a set of candidates that cannot be read"):
        client_bitmap.unpack(b"no")
