"""The coordinator on replies that are not what they should be: claims, bounds, and rounds that accept nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgefl.errors import RunError
from edgefl.server.events import (
    DeviceJoined,
    Enrolment,
    MessageReceived,
    RecordSaved,
    ReplyJudged,
    RoundClosed,
    RoundOpened,
    Save,
    Tick,
)
from edgefl.server.run_progress import Progress
from tests.server.played import RULES, begun, coordinator, play, saved, trained

NOBODY = replace(RULES, rounds=9, eval_every=9, max_empty_rounds=2, deadline_s=1.0)


def test_what_a_device_declares_is_stored_and_its_first_word_counts() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    assert saved(play(under_test, DeviceJoined(10, 0, 1.0, 0, examples=5))) == [Enrolment(0, 1.0, examples=5)]
    assert saved(play(under_test, DeviceJoined(11, 0, 1.0, 0, examples=500))) == []


def test_the_declaration_outlives_a_restart() -> None:
    progress = Progress({0: 1.0, 1: 1.0}, declared={0: 5}, opened=(0, 1), rulings={(1, 0): None, (1, 1): None})
    under_test = coordinator(progress=progress)
    under_test.start(0.0)
    play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(11, 1, 1.0, 0))
    (judged,) = saved(play(under_test, MessageReceived(10, trained(1, examples=7))))
    assert isinstance(judged, ReplyJudged)
    assert judged.outcome == "accepted"  # it carries nothing, so its claim has no weight
    assert under_test._rounds.expected_claim(0).examples == 5
    assert under_test._rounds.expected_claim(1).examples is None


def test_rounds_in_a_row_that_accept_nobody_end_the_run_with_a_sentence() -> None:
    under_test = begun(NOBODY)
    assert [type(record) for record in saved(play(under_test, Tick(), now=2.0))] == [RoundClosed, RoundOpened]
    closing = next(action for action in under_test.handle(Tick(), 4.0) if isinstance(action, Save)).record
    words = r"no reply was accepted in rounds 1 to 2 \(no client has answered\); expected at least one"
    with pytest.raises(RunError, match=words):
        under_test.handle(RecordSaved(closing), 4.0)


def test_a_round_that_accepts_somebody_begins_the_count_again() -> None:
    under_test = begun(NOBODY)
    play(under_test, Tick(), now=2.0)
    play(under_test, MessageReceived(10, trained(2)), now=2.5)
    play(under_test, Tick(), now=4.0)
    play(under_test, Tick(), now=6.0)
    assert under_test.phase == "training"
    with pytest.raises(RunError, match=r"no reply was accepted in rounds 3 to 4"):
        play(under_test, Tick(), now=8.0)


def test_the_sentence_has_the_last_refusal() -> None:
    under_test = begun(replace(NOBODY, max_empty_rounds=1))
    with pytest.raises(RunError, match=r"the last refusal: reply of client 0 has loss=nan; expected a finite value"):
        play(under_test, MessageReceived(10, trained(1, loss=float("nan"))), Tick(), now=2.0)


def test_a_run_that_ended_so_goes_on_when_it_is_resumed() -> None:
    progress = Progress({0: 1.0, 1: 1.0}, round=2, state=begun().state, opened=None)
    under_test = coordinator(NOBODY, progress=progress)
    assert [record for record in saved(under_test.start(0.0)) if isinstance(record, RoundOpened)] == [
        RoundOpened(3, (0, 1), 1.0)
    ]
