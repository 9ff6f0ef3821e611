"""Members of a run, played to a coordinator: removed, taken back, leaving, sleeping, chosen by their tags; and the
operator's other commands.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from edgefl.methods import FedAvg
from edgefl.protocol.wire.attendance_messages import ComeAgain, DeviceNotice
from edgefl.protocol.wire.messages import Finished
from edgefl.server.client_choice import ClientChoice
from edgefl.server.client_links import Clients
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Admit,
    Close,
    DeviceJoined,
    MessageReceived,
    RecordSaved,
    RoundClosed,
    RoundOpened,
    RunCompleted,
    RunDrained,
    Send,
    Tick,
    WakeAt,
)
from edgefl.server.member_records import (
    AnswerOperator,
    ClientRemoved,
    CommandGiven,
    OperatorCommand,
    TagsRecorded,
)
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import coordinator, play, saved, trained

RULES = Rules(rounds=3, eval_every=9, wait_for=4, among_enrolled=True)


def four(rules: Rules = RULES, per_round: int = 4, progress: Progress | None = None) -> Coordinator:
    """A run of FedAvg in which clients 0 to 3 have joined on links 10 to 13."""
    under_test = coordinator(rules, FedAvg(per_round=per_round), 4, progress)
    under_test.start(0.0)
    play(under_test, *(DeviceJoined(10 + client, client, 1.0, 0) for client in range(4)))
    return under_test


def tell(under_test: Coordinator, text: str, now: float = 1.0) -> list[Any]:
    return play(under_test, CommandGiven(f"{text} at {now}", 7.0, tuple(text.split())), now=now)


def answers(actions: list[Any]) -> list[AnswerOperator]:
    return [action for action in actions if isinstance(action, AnswerOperator)]


def planned(actions: list[Any]) -> list[tuple[int, ...]]:
    return [record.clients for record in saved(actions) if isinstance(record, RoundOpened)]


def reply(under_test: Coordinator, *clients: int, round: int = 1, now: float = 2.0) -> list[Any]:
    return play(under_test, *(MessageReceived(10 + client, trained(round)) for client in clients), now=now)


def notice(client: int, sleeps: bool = False, leaves: bool = False, **tags: str) -> MessageReceived:
    return MessageReceived(10 + client, DeviceNotice(tags, sleeps, leaves))


def test_a_removed_client_is_refused_at_once_and_until_it_is_taken_back() -> None:
    under_test = four()
    actions = tell(under_test, "remove 2")
    assert [record.client for record in saved(actions) if isinstance(record, ClientRemoved)] == [2]
    assert [action.link for action in actions if isinstance(action, Close)] == [12]
    assert answers(actions)[0].line == "client 2 is refused from now on"
    assert planned(reply(under_test, 0, 1, 3)) == [(0, 1, 3)]  # the round does not wait for client 2, nor does the next
    refused = play(under_test, DeviceJoined(22, 2, 1.0, 0))
    assert refused == [Close(22, "the operator has removed this client from the run")]
    tell(under_test, "readmit 2", now=3.0)
    assert Admit(22, 2) in play(under_test, DeviceJoined(22, 2, 1.0, 0))
    assert planned(reply(under_test, 0, 1, 3, round=2)) == [(0, 1, 2, 3)]


def test_a_removal_is_durable() -> None:
    stored = Progress(dict.fromkeys(range(4), 1.0), removed={1: "gone"})
    under_test = coordinator(RULES, FedAvg(per_round=4), 4, stored)
    assert planned(under_test.start(0.0)) == [(0, 2, 3)]
    assert play(under_test, DeviceJoined(11, 1, 1.0, 0)) == [Close(11, "gone")]


def test_a_device_leaves_and_comes_back() -> None:
    under_test = four()
    actions = play(under_test, notice(1, leaves=True), now=1.0)
    (last,) = [action.message for action in actions if isinstance(action, Send)]
    assert isinstance(last, Finished)
    assert last.reason == "client 1 has left the run; start its device again to come back"
    assert planned(reply(under_test, 0, 2, 3)) == [(0, 2, 3)]
    play(under_test, DeviceJoined(11, 1, 1.0, 0))
    assert planned(reply(under_test, 0, 2, 3, round=2)) == [(0, 1, 2, 3)]


def test_a_device_hears_that_it_has_left_once_its_own_departure_is_durable() -> None:
    under_test = four()
    play(under_test, notice(1, leaves=True), now=1.0)
    (back,) = saved(under_test.handle(DeviceJoined(11, 1, 1.0, 0), 2.0))
    (left,) = saved(under_test.handle(notice(1, leaves=True), 3.0))
    assert not sent(under_test.handle(RecordSaved(back), 4.0), Finished)
    assert sent(under_test.handle(RecordSaved(left), 5.0), Finished) == [11]


def test_a_run_that_all_devices_have_left_waits_for_one_to_come_back() -> None:
    under_test = four()
    play(under_test, *(notice(client, leaves=True) for client in range(4)), now=1.0)
    assert (under_test.phase, under_test.awaited(2.0)) == (
        "waiting",
        "round 2 waits for a device that takes part; clients that refuse or have left: 0, 1, 2, 3",
    )
    assert planned(play(under_test, DeviceJoined(12, 2, 1.0, 0), now=3.0)) == [(2,)]


def sent(actions: list[Any], kind: type) -> list[int]:
    """Return the links on which messages of this type go out."""
    return [each.link for each in actions if isinstance(each, Send) and isinstance(each.message, kind)]


def test_clients_are_chosen_by_their_tags_and_wait_for_such_tags() -> None:
    rules = replace(RULES, among_enrolled=False, choice=ClientChoice.parse("site == 3"))
    under_test = four(rules)
    assert (under_test.phase, under_test.awaited(1.0)) == (
        "waiting",
        "round 1 waits for clients: no enrolled client fulfils site == 3",
    )
    actions = play(under_test, notice(2, site="3"), now=1.0)
    assert TagsRecorded(2, (("site", "3"),)) in saved(actions)
    assert planned(actions) == [(2,)]
    play(under_test, notice(0, site="3"), now=1.0)
    assert planned(reply(under_test, 2)) == [(0, 2)]


def test_a_device_that_tells_other_tags_while_a_closed_round_is_stored_is_chosen_by_its_new_tags() -> None:
    under_test = four(replace(RULES, among_enrolled=False, choice=ClientChoice.parse("site == 3")))
    play(under_test, notice(2, site="3"), now=1.0)
    (closed,) = (each for each in saved(under_test.handle(MessageReceived(12, trained(1)), 2.0)) if is_closed(each))
    play(under_test, notice(2, site="4"), notice(0, site="3"), now=2.0)
    assert planned(play(under_test, RecordSaved(closed), now=3.0)) == [(0,)]


def is_closed(record: Any) -> bool:
    return isinstance(record, RoundClosed)


def test_a_condition_of_a_command_holds_from_the_next_round_on() -> None:
    under_test = four()
    actions = play(under_test, CommandGiven("c", 0.0, ("set", "select=client in [1, 2]")), now=1.0)
    assert answers(actions)[0].line == "select=client in [1, 2] holds once round 1 is closed"
    assert planned(reply(under_test, 0, 1, 2, 3)) == [(1, 2)]


def test_tags_name_clients_that_are_removed() -> None:
    under_test = four()
    play(under_test, notice(1, room="a"), notice(3, room="a"))
    assert answers(tell(under_test, "remove room=a"))[0].line == "clients 1, 3 are refused from now on"
    assert not answers(tell(under_test, "remove room=b"))[0].is_done
    assert planned(reply(under_test, 0, 2)) == [(0, 2)]


def test_devices_that_may_sleep_are_sent_away_at_times_of_their_own() -> None:
    under_test = coordinator(replace(RULES, come_again_s=60.0), FedAvg(per_round=1), 40)
    under_test.start(0.0)
    play(under_test, *(DeviceJoined(10 + client, client, 1.0, 0) for client in range(40)))
    actions = play(under_test, *(notice(client, sleeps=client > 1) for client in range(40)))
    sent = {action.link: action.message for action in actions if isinstance(action, Send)}
    away = {link: message.seconds for link, message in sent.items() if isinstance(message, ComeAgain)}
    assert len(away) >= 37  # not the planned client, nor those that stay awake
    assert 10 not in away
    assert 11 not in away
    assert min(away.values()) >= 30.0
    assert max(away.values()) <= 90.0
    by_time = sorted(away.values())
    assert max(b - a for a, b in pairwise(by_time)) < 6.0  # spread, and no herd


def test_a_pause_lets_the_open_round_end_and_no_round_follow() -> None:
    under_test = four()
    assert answers(tell(under_test, "pause"))[0].line == (
        "no round opens once round 1 is closed, until the command resume"
    )
    assert planned(reply(under_test, 0, 1, 2, 3)) == []
    assert (under_test.phase, under_test.round) == ("waiting", 1)
    assert "paused" in (under_test.awaited(3.0) or "")
    assert planned(tell(under_test, "resume", now=4.0)) == [(0, 1, 2, 3)]


def test_a_pause_holds_over_a_restart() -> None:
    pause = OperatorCommand("a", 0.0, 0, ("pause",))
    under_test = coordinator(RULES, FedAvg(per_round=4), 4, Progress(dict.fromkeys(range(4), 1.0), commands=(pause,)))
    assert planned(under_test.start(0.0)) == []
    again = play(under_test, CommandGiven("a", 0.0, ("pause",)))
    assert again == [AnswerOperator("a", "carried out before the server was started again", True)]
    assert planned(tell(under_test, "resume")) == [(0, 1, 2, 3)]


def test_an_open_round_goes_on_after_a_restart_in_a_pause() -> None:
    pause = OperatorCommand("a", 0.0, 0, ("pause",))
    stored = Progress(dict.fromkeys(range(4), 1.0), opened=(0, 1, 2, 3), commands=(pause,))
    under_test = coordinator(RULES, FedAvg(per_round=4), 4, stored)
    under_test.start(0.0)
    assert under_test.phase == "training"


def test_stop_ends_the_run_with_the_open_round() -> None:
    under_test = four(replace(RULES, eval_every=1))
    tell(under_test, "stop")
    actions = reply(under_test, 0, 1, 2, 3)
    (closed,) = [record for record in saved(actions) if isinstance(record, RoundClosed)]
    assert closed.done
    assert under_test.phase == "scoring"


def test_stop_in_a_pause_ends_the_run() -> None:
    under_test = four()
    tell(under_test, "pause")
    reply(under_test, 0, 1, 2, 3)
    tell(under_test, "set evaluation-deadline=5", now=5.0)
    actions = tell(under_test, "stop", now=6.0)
    assert under_test.done
    assert WakeAt(11.0) in actions
    assert RunCompleted() in play(under_test, Tick(), now=11.0)
    late = tell(under_test, "pause", now=12.0)
    assert answers(late) == [
        AnswerOperator("pause at 12.0", "the run is over; expected a run with rounds to come", False)
    ]


def test_drain_ends_the_process_and_not_the_run() -> None:
    under_test = four()
    answer = answers(tell(under_test, "drain"))[0]
    assert answer.line == "the server ends once round 1 is closed; continue with --resume"
    actions = reply(under_test, 0, 1, 2, 3)
    (closed,) = [record for record in saved(actions) if isinstance(record, RoundClosed)]
    assert (closed.done, RunDrained() in actions, planned(actions)) == (False, True, [])


def test_the_operator_hears_before_a_waiting_server_ends() -> None:
    under_test = coordinator(RULES, FedAvg(per_round=4), 4)
    under_test.start(0.0)
    actions = tell(under_test, "drain")
    assert [type(action) for action in actions][-2:] == [AnswerOperator, RunDrained]


def test_a_deadline_holds_for_the_open_round() -> None:
    under_test = four(replace(RULES, deadline_s=100.0))
    assert WakeAt(30.0) in tell(under_test, "set deadline=30", now=10.0)
    actions = play(under_test, Tick(), now=30.0)
    (opened,) = [record for record in saved(actions) if isinstance(record, RoundOpened)]
    assert (opened.round, opened.deadline_s) == (2, 30.0)
    assert WakeAt(None) in tell(under_test, "set deadline=none", now=31.0)


def test_rounds_are_added_and_taken_away() -> None:
    under_test = four(replace(RULES, rounds=1))
    tell(under_test, "set rounds=2")
    assert planned(reply(under_test, 0, 1, 2, 3)) == [(0, 1, 2, 3)]
    refused = answers(tell(under_test, "set rounds=1", now=5.0))[0]
    assert (refused.is_done, refused.line) == (False, "rounds=1; expected at least 2, or the command stop")
    reply(under_test, 0, 1, 2, 3, round=2)
    assert under_test.done
    assert under_test.phase == "scoring"
    late = answers(tell(under_test, "set rounds=9", now=6.0))[0]
    assert late.line == "rounds=9; expected a run with rounds to come, and no round follows 2"


def test_no_round_more_than_commanded_follows_a_pause() -> None:
    under_test = four()
    tell(under_test, "pause")
    reply(under_test, 0, 1, 2, 3)
    refused = answers(tell(under_test, "set rounds=1", now=5.0))[0]
    assert (refused.is_done, refused.line) == (False, "rounds=1; expected at least 2, or the command stop")


def test_a_command_that_is_not_understood_changes_nothing_and_is_not_kept() -> None:
    under_test = four()
    actions = play(under_test, CommandGiven("x", 0.0, ("fly",)), CommandGiven("y", 0.0, ("remove", "9")))
    assert saved(actions) == []
    assert [answer.is_done for answer in answers(actions)] == [False, False]
    assert answers(actions)[1].line == "client 9; expected an id below 4"


def test_nothing_is_answered_before_it_is_durable() -> None:
    under_test = four()
    actions = under_test.handle(CommandGiven("x", 0.0, ("remove", "1")), 1.0)
    assert answers(actions) == []
    (record,) = [record for record in saved(actions) if isinstance(record, OperatorCommand)]
    assert answers(under_test.handle(RecordSaved(record), 1.0)) != []


def test_a_run_of_an_earlier_version_keeps_no_commands() -> None:
    under_test = four(progress=Progress(keeps_commands=False))
    assert "an earlier edgefl made this run" in answers(tell(under_test, "pause"))[0].line


def test_ids_of_an_open_run_are_spread_and_all_are_given() -> None:
    clients = Clients(12, {}, is_open=True)
    given = []
    for each in range(12):
        client = clients.find(None, b"%d" % each)
        assert client is not None
        clients.begin_enrolment(client, b"%d" % each)
        clients.end_enrolment(client, 1.0)
        given.append(client)
    assert sorted(given) == list(range(12))
    assert all({client // 4 for client in given[:n]} == {0, 1, 2} for n in (4, 5, 6))  # three tiers of four ids
    assert clients.find(None, b"one more") is None
    assert clients.find(None, b"3") == given[3]
