"""The coordinator as tables, events in and actions out: enrolment, connections, replies, quorum and deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgefl.methods import FedSPU
from edgefl.protocol.wire.messages import Train, Verdict
from edgefl.server.client_links import MOST_PROVENANCES
from edgefl.server.events import (
    Admit,
    Close,
    DeviceJoined,
    DeviceLeft,
    Enrolment,
    MessageReceived,
    ProvenanceRecorded,
    RecordSaved,
    ReplyJudged,
    RoundClosed,
    RoundOpened,
    Save,
    Send,
    Tick,
    WakeAt,
)
from edgefl.server.round_sequence import LATE
from edgefl.server.run_progress import Progress
from tests.server.played import RULES, asks, begun, coordinator, play, saved, train, trained

# Enrolment.


def test_a_device_is_admitted_once_its_enrolment_is_durable() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    assert under_test.handle(DeviceJoined(10, 0, 0.5, 0), 0.0) == [Save(Enrolment(0, 0.5))]
    assert under_test.handle(RecordSaved(Enrolment(0, 0.5)), 0.0) == [Admit(10, 0)]


def test_round_one_begins_when_enough_have_enrolled() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    assert play(under_test, DeviceJoined(10, 0, 1.0, 0)) == [Save(Enrolment(0, 1.0)), Admit(10, 0)]
    assert play(under_test, DeviceJoined(12, 2, 1.0, 0)) == [
        Save(Enrolment(2, 1.0)),
        Admit(12, 2),
        Save(RoundOpened(1, (0, 1))),
        asks(10, train(1)),
    ]


def test_a_device_that_asks_for_any_id_gets_the_lowest_free_one() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    actions = play(
        under_test, DeviceJoined(11, 1, 1.0, 0), DeviceJoined(12, None, 1.0, 0), DeviceJoined(13, None, 1.0, 0)
    )
    assert [action for action in actions if isinstance(action, Admit)] == [Admit(11, 1), Admit(12, 0), Admit(13, 2)]
    full = "no id is free; all 3 clients of this run have enrolled"
    assert play(under_test, DeviceJoined(14, None, 1.0, 0)) == [Close(14, full)]


def test_what_a_device_trains_with_is_kept_once_for_each_kind_and_never_without_end() -> None:
    under_test = coordinator(progress=Progress({0: 1.0}, provenances=((0, "known"),)))
    under_test.start(0.0)
    assert under_test.handle(DeviceJoined(10, 0, 1.0, 0, provenance="known"), 0.0) == [Admit(10, 0)]
    assert under_test.handle(DeviceJoined(11, 0, 1.0, 0, provenance="new"), 0.0)[-1] == Save(
        ProvenanceRecorded(0, "new")
    )
    several = [
        under_test.handle(DeviceJoined(20 + i, 0, 1.0, 0, provenance=f"kind {i}"), 0.0)[-1]
        for i in range(MOST_PROVENANCES)
    ]
    assert several[:-2] == [Save(ProvenanceRecorded(0, f"kind {i}")) for i in range(MOST_PROVENANCES - 2)]
    assert not any(isinstance(action, Save) for action in several[-2:])


def test_an_id_that_is_being_enrolled_is_not_free() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    assert under_test.handle(DeviceJoined(10, None, 1.0, 0), 0.0) == [Save(Enrolment(0, 1.0))]
    under_test.handle(DeviceLeft(10), 0.0)
    assert under_test.handle(DeviceJoined(11, None, 0.5, 0), 0.0) == [Save(Enrolment(1, 0.5))]


def test_a_device_that_did_not_hear_which_id_it_got_gets_it_again() -> None:
    """Its token identifies it while its enrolment is being stored, after that, and to a server that was restarted."""
    under_test = coordinator()
    under_test.start(0.0)
    enrolment = Enrolment(0, 1.0, b"mine")
    assert under_test.handle(DeviceJoined(10, None, 1.0, 0, b"mine"), 0.0) == [Save(enrolment)]
    under_test.handle(DeviceLeft(10), 0.0)
    assert under_test.handle(DeviceJoined(11, None, 1.0, 0, b"mine"), 0.0) == []
    assert under_test.handle(RecordSaved(enrolment), 0.0) == [Admit(11, 0)]
    under_test.handle(DeviceLeft(11), 0.0)
    assert under_test.handle(DeviceJoined(12, None, 1.0, 0, b"mine"), 0.0) == [Admit(12, 0)]
    assert under_test.handle(DeviceJoined(13, None, 1.0, 0, b"other"), 0.0) == [Save(Enrolment(1, 1.0, b"other"))]

    restarted = coordinator(progress=Progress({0: 1.0}, secrets={0: b"mine"}))
    restarted.start(0.0)
    assert restarted.handle(DeviceJoined(10, None, 1.0, 0, b"mine"), 0.0) == [Admit(10, 0)]


@pytest.mark.parametrize("client", [3, 99])
def test_an_id_beyond_the_run_is_refused(client: int) -> None:
    assert play(begun(), DeviceJoined(20, client, 1.0, 0)) == [Close(20, f"client {client}; expected an id below 3")]


def test_a_device_that_leaves_before_it_is_admitted_stays_enrolled() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    under_test.handle(DeviceJoined(10, 0, 1.0, 0), 0.0)
    under_test.handle(DeviceLeft(10), 0.0)
    assert under_test.handle(RecordSaved(Enrolment(0, 1.0)), 0.0) == []
    assert play(under_test, DeviceJoined(11, 0, 0.5, 0)) == [Admit(11, 0)]


def test_two_connections_of_a_new_client_enrol_it_once() -> None:
    under_test = coordinator()
    under_test.start(0.0)
    assert under_test.handle(DeviceJoined(10, 0, 1.0, 0), 0.0) == [Save(Enrolment(0, 1.0))]
    assert under_test.handle(DeviceJoined(11, 0, 0.5, 0), 0.0) == [Close(10, "client 0 has connected again")]
    assert under_test.handle(RecordSaved(Enrolment(0, 1.0)), 0.0) == [Admit(11, 0)]


def test_a_capacity_that_is_declared_in_the_middle_of_a_round_changes_the_plan() -> None:
    """Client 2 enrols when round 1 is open: it is asked for a quarter of its neurons instead of all."""
    under_test = coordinator(replace(RULES, wait_for=1), FedSPU(keep=(1.0,), per_round=3))
    under_test.start(0.0)
    whole, quarter = (
        next(action.message for action in play(under_test, event) if isinstance(action, Send))
        for event in (DeviceJoined(10, 0, 1.0, 0), DeviceJoined(12, 2, 0.25, 0))
    )
    assert isinstance(whole, Train)
    assert isinstance(quarter, Train)
    assert (whole.settings, quarter.settings) == ({"keep": 1.0}, {"keep": 0.25})
    assert len(quarter.payload["model"]) < len(whole.payload["model"])


def test_a_capacity_that_is_declared_between_two_rounds_changes_the_next_one() -> None:
    """Client 2 enrols while round 1, which nobody answered, is being stored: its plan for round 2 was made before."""
    rules = replace(RULES, wait_for=1, deadline_s=10.0)
    under_test = coordinator(rules, FedSPU(keep=(1.0,), per_round=3))
    under_test.start(0.0)
    play(under_test, DeviceJoined(10, 0, 1.0, 0))
    (closed,) = [action.record for action in under_test.handle(Tick(), 10.0) if isinstance(action, Save)]
    assert isinstance(closed, RoundClosed)
    play(under_test, DeviceJoined(12, 2, 0.25, 0), now=10.0)
    requests = [action for action in play(under_test, RecordSaved(closed), now=10.0) if isinstance(action, Send)]
    assert [(each.link, each.message.round, each.message.settings) for each in requests] == [
        (10, 2, {"keep": 1.0}),
        (12, 2, {"keep": 0.25}),
    ]


# Connections.


def test_the_newest_connection_of_a_client_wins() -> None:
    under_test = begun()
    assert play(under_test, DeviceJoined(20, 0, 1.0, 0)) == [
        Close(10, "client 0 has connected again"),
        Admit(20, 0),
        asks(20, train(1)),
    ]
    assert play(under_test, MessageReceived(10, trained(1))) == []
    assert play(under_test, DeviceLeft(10)) == []
    assert saved(play(under_test, MessageReceived(20, trained(1)))) == [ReplyJudged(1, 0, "accepted", "", trained(1))]


def test_a_device_that_comes_back_is_asked_again() -> None:
    assert play(begun(), DeviceLeft(10), DeviceJoined(20, 0, 1.0, 0)) == [Admit(20, 0), asks(20, train(1))]


def test_a_device_that_still_owes_its_reply_is_not_asked_again() -> None:
    assert play(begun(), DeviceJoined(20, 0, 1.0, 1))[1:] == [Admit(20, 0)]


def test_a_device_that_owes_the_reply_of_an_earlier_round_is_asked() -> None:
    under_test = begun(replace(RULES, quorum=1))
    play(under_test, MessageReceived(11, trained(1)))
    assert play(under_test, DeviceJoined(20, 0, 1.0, 1))[1:] == [Admit(20, 0), asks(20, train(2))]


def test_a_device_that_was_judged_is_not_asked_again() -> None:
    assert play(begun(), MessageReceived(10, trained(1)), DeviceJoined(20, 0, 1.0, 0))[-1] == Admit(20, 0)


def test_a_client_that_is_not_planned_is_asked_nothing() -> None:
    assert play(begun(), DeviceJoined(12, 2, 1.0, 0)) == [Save(Enrolment(2, 1.0)), Admit(12, 2)]


# Replies.


def test_a_verdict_is_sent_once_the_reply_is_durable() -> None:
    under_test = begun()
    judged = ReplyJudged(1, 0, "accepted", "", trained(1))
    assert under_test.handle(MessageReceived(10, trained(1)), 0.0) == [Save(judged)]
    assert under_test.handle(MessageReceived(10, trained(1)), 0.0) == []
    assert under_test.handle(RecordSaved(judged), 0.0) == [asks(10, Verdict(1, "accepted", ""))]


def test_a_verdict_goes_to_the_connection_that_there_is_by_then() -> None:
    under_test = begun()
    under_test.handle(MessageReceived(10, trained(1)), 0.0)
    under_test.handle(DeviceJoined(20, 0, 1.0, 1), 0.0)
    judged = ReplyJudged(1, 0, "accepted", "", trained(1))
    assert under_test.handle(RecordSaved(judged), 0.0) == [asks(20, Verdict(1, "accepted", ""))]


def test_a_repeated_reply_gets_the_same_verdict_and_is_not_stored() -> None:
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    again = play(under_test, MessageReceived(10, trained(1, examples=99)))
    assert again == [asks(10, Verdict(1, "accepted", ""))]


def test_a_round_closes_with_the_last_reply_and_the_next_begins_when_that_is_durable() -> None:
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1, examples=5)))
    first, second = under_test.handle(MessageReceived(11, trained(1, examples=7)), 3.0)
    assert first == Save(ReplyJudged(1, 1, "accepted", "", trained(1, examples=7)))
    assert isinstance(second, Save)
    closed = second.record
    assert isinstance(closed, RoundClosed)
    assert (closed.round, closed.state.values, closed.done, closed.log_record["seconds"]) == (
        1,
        {"total": 12},
        False,
        3.0,
    )
    assert under_test.handle(RecordSaved(closed), 3.0) == [Save(RoundOpened(2, (0, 1)))]
    asked = [asks(10, train(2)), asks(11, train(2))]
    assert under_test.handle(RecordSaved(RoundOpened(2, (0, 1))), 3.0) == asked


def test_nobody_is_asked_before_the_beginning_of_the_round_is_durable() -> None:
    """A server that is killed earlier may choose other clients for the round, and would refuse the reply."""
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    (_, second) = under_test.handle(MessageReceived(11, trained(1)), 3.0)
    under_test.handle(RecordSaved(second.record), 3.0)  # type: ignore[union-attr]
    again = under_test.handle(DeviceJoined(12, 0, 1.0, 0), 3.0)
    assert [each for each in again if isinstance(each, Send)] == []
    asked = under_test.handle(RecordSaved(RoundOpened(2, (0, 1))), 3.0)
    assert asked == [asks(12, train(2)), asks(11, train(2))]


def test_a_reply_repeated_while_its_round_is_being_stored_is_not_late() -> None:
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    judged, _closed = under_test.handle(MessageReceived(11, trained(1)), 0.0)
    assert isinstance(judged, Save)
    assert under_test.handle(MessageReceived(11, trained(1)), 0.0) == []
    assert under_test.handle(RecordSaved(judged.record), 0.0) == [asks(11, Verdict(1, "accepted", ""))]


def test_a_refused_reply_is_named_counts_as_judged_and_is_not_aggregated() -> None:
    under_test = begun()
    reason = "reply of client 0 has loss=nan; expected a finite value"
    refused, *_ = actions = play(under_test, MessageReceived(10, trained(1, loss=float("nan"))))
    assert isinstance(refused, Save)
    assert actions[1:] == [asks(10, Verdict(1, "refused", reason))]
    records = saved(play(under_test, MessageReceived(11, trained(1, examples=7))))
    assert isinstance(records[1], RoundClosed)
    assert records[1].state.values == {"total": 7}
    assert [(client["status"], client.get("reason")) for client in records[1].log_record["clients"]] == [
        ("refused", reason),
        ("on", None),
    ]


def test_a_reply_to_a_closed_round_is_late() -> None:
    under_test = begun(replace(RULES, quorum=1))
    play(under_test, MessageReceived(11, trained(1, examples=7)))
    assert play(under_test, MessageReceived(10, trained(1))) == [
        Save(ReplyJudged(1, 0, "late", LATE, trained(1))),
        asks(10, Verdict(1, "late", LATE)),
    ]
    assert under_test.state.values == {"total": 7}
    assert play(under_test, MessageReceived(10, trained(1))) == [asks(10, Verdict(1, "late", LATE))]


@pytest.mark.parametrize(("link", "round"), [(10, 2), (10, 0), (12, 1)], ids=["future", "none", "not planned"])
def test_a_reply_that_nobody_asked_for_closes_the_connection(link: int, round: int) -> None:
    under_test = begun()
    play(under_test, DeviceJoined(12, 2, 1.0, 0))
    reason = f"reply of client {link - 10} for round {round}; expected a client that this round planned"
    assert play(under_test, MessageReceived(link, trained(round))) == [Close(link, reason)]
    assert play(under_test, MessageReceived(link, trained(1))) == []


# Quorum and deadline.


def test_a_quorum_counts_accepted_replies_only() -> None:
    under_test = begun(replace(RULES, quorum=1))
    assert len(saved(play(under_test, MessageReceived(10, trained(1, loss=float("nan")))))) == 1
    kinds = [type(record) for record in saved(play(under_test, MessageReceived(11, trained(1))))]
    assert kinds == [ReplyJudged, RoundClosed, RoundOpened]


def test_a_deadline_closes_the_round_with_whoever_has_replied() -> None:
    under_test = coordinator(replace(RULES, deadline_s=10.0))
    under_test.start(0.0)
    opening = play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(12, 2, 1.0, 0), now=100.0)
    assert WakeAt(110.0) in opening
    assert asks(10, train(1, 10.0)) in opening
    assert play(under_test, DeviceJoined(11, 1, 1.0, 0), now=104.0)[-1] == asks(11, train(1, 6.0))
    play(under_test, MessageReceived(11, trained(1, examples=7)), now=105.0)
    assert play(under_test, Tick(), now=109.5) == [WakeAt(110.0)]
    wake, save, *_ = play(under_test, Tick(), now=110.0)
    assert wake == WakeAt(None)
    assert isinstance(save, Save)
    assert isinstance(save.record, RoundClosed)
    assert save.record.state.values == {"total": 7}
    assert [client["status"] for client in save.record.log_record["clients"]] == ["absent", "on"]


def test_a_tick_without_a_deadline_does_nothing() -> None:
    assert play(begun(), Tick(), now=1e9) == []
