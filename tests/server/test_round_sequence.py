"""The sequence of rounds closes the steps of secure groups at their deadline, and learns how long evaluations take."""

from __future__ import annotations

from dataclasses import replace

from edgefl.methods import FedAvg
from edgefl.protocol.wire.messages import GroupReady, GroupRequest, Verdict
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import DeviceJoined, MessageReceived, Send, Tick, WakeAt
from edgefl.server.round_deadline import AdaptiveDeadline
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import RULES, begun, play, scores, trained
from tests.server.served import INITIAL
from tests.server.test_secure_round import CLIENTS, EXACT, SETTINGS, TASK_OF_FIVE

ADAPTIVE = AdaptiveDeadline(first_s=1000.0, floor_s=1.0, multiple=10.0)


def test_the_deadline_of_an_evaluation_is_ten_times_what_the_evaluation_before_took() -> None:
    under_test = begun(replace(RULES, eval_every=1, evaluation_deadline_s=ADAPTIVE))
    first = play(under_test, MessageReceived(10, trained(1)), MessageReceived(11, trained(1)), now=1.0)
    assert WakeAt(1001.0) in first
    play(under_test, MessageReceived(10, scores(1)), MessageReceived(11, scores(1)), now=4.0)
    second = play(under_test, MessageReceived(10, trained(2)), MessageReceived(11, trained(2)), now=5.0)
    assert WakeAt(35.0) in second


def test_a_group_whose_members_are_silent_fails_at_the_deadline_of_its_step() -> None:
    rules = Rules(rounds=1, eval_every=1, wait_for=CLIENTS, secure=SETTINGS, aggregation_settings=EXACT)
    method = FedAvg(per_round=CLIENTS, epochs=1, batch=4, lr=0.1)
    under_test = Coordinator(TASK_OF_FIVE, method, rules, INITIAL, Progress())
    under_test.start(0.0)
    play(under_test, *(DeviceJoined(10 + client, client, 1.0, 0, examples=8) for client in range(CLIENTS)))
    ready = [MessageReceived(10 + client, GroupReady(1, b"", 8, 2, 1.0, b"")) for client in range(CLIENTS)]
    asked = [each for each in play(under_test, *ready, now=1.0) if isinstance(each, Send)]
    assert {each.link for each in asked if isinstance(each.message, GroupRequest)} == {10, 11, 12, 13, 14}
    assert not any(isinstance(each, Send) for each in play(under_test, Tick(), now=10.9))
    verdicts = [each.message for each in play(under_test, Tick(), now=11.0) if isinstance(each, Send)][:CLIENTS]
    assert all(isinstance(each, Verdict) and each.outcome == "not-opened" for each in verdicts)
    assert len(verdicts) == CLIENTS and "0 of 5 clients sent round keys" in str(verdicts[0])
