"""The coordinator and who is there: deadlines that follow replies, choosing among those seen, for whom it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgefl.errors import RunError
from edgefl.methods import FedAvg, FedSPU
from edgefl.methods.plan import Plan
from edgefl.methods.task import State, Task
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    DeviceJoined,
    DeviceLeft,
    MessageReceived,
    RecordSaved,
    RoundClosed,
    RoundOpened,
    Send,
    Tick,
    WakeAt,
)
from edgefl.server.round_deadline import AdaptiveDeadline
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import RULES, begun, coordinator, play, saved, trained

SEEN = Rules(rounds=3, eval_every=3, wait_for=4, deadline_s=10.0, seen_s=60.0)
FOUR = dict.fromkeys(range(4), 1.0)


def opened(actions: list[Any]) -> list[RoundOpened]:
    return [record for record in saved(actions) if isinstance(record, RoundOpened)]


def choosing(rules: Rules = SEEN, per_round: int = 4, progress: Progress | None = None) -> Coordinator:
    """FedAvg among four clients."""
    return coordinator(rules, FedAvg(per_round=per_round), 4, progress)


def joined(under_test: Coordinator, clients: range, now: float = 0.0) -> list[Any]:
    return play(under_test, *(DeviceJoined(10 + client, client, 1.0, 0) for client in clients), now=now)


def close_round(under_test: Coordinator, now: float) -> list[Any]:
    """Close the round at its deadline, with the clients that have replied."""
    actions = under_test.handle(Tick(), now)
    (closed,) = [record for record in saved(actions) if isinstance(record, RoundClosed)]
    return play(under_test, RecordSaved(closed), now=now)


# Deadlines.


def test_a_deadline_follows_the_replies_and_is_logged() -> None:
    under_test = coordinator(replace(RULES, rounds=3, eval_every=3, deadline_s=AdaptiveDeadline()))
    under_test.start(0.0)
    first = play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(11, 1, 1.0, 0))
    assert (opened(first), WakeAt(3600.0) in first) == ([RoundOpened(1, (0, 1), 3600.0)], True)
    play(under_test, MessageReceived(10, trained(1)), now=20.0)
    second = play(under_test, MessageReceived(11, trained(1)), now=30.0)
    assert opened(second) == [RoundOpened(2, (0, 1), 300.0)]
    assert WakeAt(330.0) in second


def test_a_restarted_server_goes_on_with_the_deadline_it_had() -> None:
    stored = Progress({0: 1.0, 1: 1.0}, opened=(0, 1), deadline_s=300.0, rulings={(1, 0): None, (1, 1): None})
    under_test = coordinator(replace(RULES, deadline_s=AdaptiveDeadline()), progress=stored)
    assert under_test.start(50.0) == [WakeAt(350.0)]


def test_a_late_reply_counts() -> None:
    under_test = coordinator(
        replace(RULES, rounds=3, eval_every=3, deadline_s=AdaptiveDeadline(floor_s=1.0, first_s=10.0))
    )
    under_test.start(0.0)
    joined(under_test, range(2))
    play(under_test, MessageReceived(10, trained(1)), now=0.05)
    (second,) = opened(close_round(under_test, 10.0))
    assert second.deadline_s == 1.0
    play(under_test, MessageReceived(11, trained(1)), now=10.5)
    (third,) = opened(close_round(under_test, 11.0))
    assert third.deadline_s == 21.0  # twice 10.5, beyond the ten seconds that there were at first


# Whom a round's clients are chosen among.


def test_a_round_is_planned_with_those_that_were_seen() -> None:
    under_test = choosing()
    under_test.start(0.0)
    assert opened(joined(under_test, range(4))) == [RoundOpened(1, (0, 1, 2, 3), 10.0, frozenset(range(4)))]
    play(under_test, DeviceLeft(13), now=5.0)
    assert opened(close_round(under_test, 10.0)) == [RoundOpened(2, (0, 1, 2, 3), 10.0, frozenset(range(4)))]
    assert opened(close_round(under_test, 65.5)) == [RoundOpened(3, (0, 1, 2), 10.0, frozenset({0, 1, 2}))]


def test_with_everybody_there_the_same_are_chosen_as_without() -> None:
    chosen = []
    for seen_s in (None, 60.0):
        under_test = choosing(replace(SEEN, seen_s=seen_s), per_round=2)
        under_test.start(0.0)
        actions = joined(under_test, range(4)) + close_round(under_test, 10.0) + close_round(under_test, 20.0)
        chosen.append([each.clients for each in opened(actions)])
    assert chosen[0] == chosen[1]
    assert [len(each) for each in chosen[0]] == [2, 2, 2]


def test_a_round_waits_until_somebody_is_there() -> None:
    """All leave in round 1. The run is not over, and goes on with the first that comes back."""
    under_test = choosing()
    under_test.start(0.0)
    joined(under_test, range(4))
    play(under_test, *(DeviceLeft(10 + client) for client in range(4)), now=5.0)
    assert opened(close_round(under_test, 1000.0)) == []
    assert (under_test.phase, under_test.done) == ("waiting", False)
    waiting = "round 2 waits for clients: no client that it may choose was seen in the last 60 s"
    assert under_test.awaited(1000.0) == waiting
    assert opened(play(under_test, DeviceJoined(20, 2, 1.0, 0), now=1001.0)) == [
        RoundOpened(2, (2,), 10.0, frozenset({2}))
    ]


def test_a_run_is_over_when_nobody_is_left_to_choose_though_some_are_there() -> None:
    """Under early stopping: all clients have stopped."""

    class Stopped(FedAvg):
        def plan(self, task: Task, state: State, round: int) -> list[Plan]:
            return super().plan(task, state, round) if round == 1 else []

    under_test = coordinator(replace(SEEN, eval_every=9), Stopped(per_round=4), 4)
    under_test.start(0.0)
    joined(under_test, range(4))
    closed = saved(under_test.handle(Tick(), 10.0))
    assert [record.done for record in closed if isinstance(record, RoundClosed)] == [True]


def test_at_a_restart_all_that_have_enrolled_count_as_seen() -> None:
    under_test = choosing(progress=Progress(FOUR, round=1, state=choosing().state, scored=1))
    assert opened(under_test.start(0.0)) == [RoundOpened(2, (0, 1, 2, 3), 10.0, frozenset(range(4)))]


def test_a_round_that_was_begun_keeps_its_candidates() -> None:
    stored = Progress(
        FOUR, opened=(1, 2), candidates={1: frozenset({1, 2})}, rulings={(1, client): None for client in (1, 2)}
    )
    under_test = choosing(progress=stored)
    assert saved(under_test.start(0.0)) == []
    assert under_test.awaited(1.0) == (
        "round 1 waits for 2 of 2 clients: 1, 2; not connected: all of them; closes in 9 s"
    )


def test_a_method_that_plans_others_is_an_error() -> None:
    under_test = coordinator(replace(SEEN, wait_for=1))
    under_test.start(0.0)
    with pytest.raises(RunError, match="sum plans client 1 for round 1; expected one that may be chosen"):
        joined(under_test, range(1))


# For whom it waits.


def test_it_says_who_has_not_enrolled() -> None:
    under_test = choosing(replace(SEEN, seen_s=None))
    under_test.start(0.0)
    joined(under_test, range(1))
    assert under_test.awaited(0.0) == "waiting for enrolments: 1 of 4; not enrolled yet: 1, 2, 3"
    fewer = choosing(replace(SEEN, wait_for=2))
    fewer.start(0.0)
    assert fewer.awaited(0.0) == "waiting for enrolments: 0 of 2, of 4 clients"
    many = coordinator(replace(SEEN, wait_for=1000), FedAvg(per_round=1), 1000)
    many.start(0.0)
    assert many.awaited(0.0) == (
        "waiting for enrolments: 0 of 1000; not enrolled yet: 0, 1, 2, 3, 4, 5, 6, 7 and 992 more"
    )


def test_it_says_whose_reply_is_missing_and_who_is_not_connected() -> None:
    under_test = begun(replace(RULES, eval_every=1))
    assert under_test.awaited(0.0) == "round 1 waits for 2 of 2 clients: 0, 1; it has no deadline"
    play(under_test, MessageReceived(10, trained(1)), DeviceLeft(11))
    assert under_test.awaited(0.0) == (
        "round 1 waits for 1 of 2 clients: 1; not connected: all of them; it has no deadline"
    )
    before = under_test.stage
    play(under_test, DeviceJoined(21, 1, 1.0, 0), MessageReceived(21, trained(1)))
    assert under_test.stage != before
    assert under_test.awaited(0.0) == "the evaluation after round 1 waits for 2 of 2 clients: 0, 1; it has no deadline"


# Capacities.


def test_an_enrolment_with_a_capacity_plans_for_its_client_alone() -> None:
    """Two hundred of them in an open round cost one plan of it each, not two hundred."""
    asked: list[str] = []

    class Counting(FedSPU):
        def plan(self, task: Task, state: State, round: int) -> list[Plan]:
            asked.append("all")
            return super().plan(task, state, round)

        def replan(self, task: Task, state: State, plan: Plan) -> Plan:
            asked.append("one")
            return super().replan(task, state, plan)

    clients = 200
    under_test = coordinator(replace(RULES, wait_for=1), Counting(keep=(1.0,), per_round=clients), clients)
    under_test.start(0.0)
    joins = [DeviceJoined(1000 + client, client, 0.5, 0) for client in range(clients)]
    sends = [action for action in play(under_test, *joins) if isinstance(action, Send)]
    assert [each.message.settings for each in sends] == [{"keep": 0.5}] * clients
    assert asked == ["all"] + ["one"] * (clients - 1)


@pytest.mark.parametrize("method", [FedSPU(keep=(0.5, 1.0), per_round=4), FedAvg(per_round=3)])
def test_a_plan_made_again_is_the_one_that_the_round_would_have(method: FedSPU | FedAvg) -> None:
    under_test = coordinator(replace(RULES, wait_for=1), method, 4)
    limited = replace(under_test.task, limits={2: 0.25})
    for plan in method.plan(under_test.task, under_test.state, 1):
        again = method.replan(limited, under_test.state, plan)
        (whole,) = [each for each in method.plan(limited, under_test.state, 1) if each.client == plan.client]
        assert (again.selection, again.settings) == (whole.selection, whole.settings)
        for name, update in whole.payload.items():
            assert again.payload[name].blocks.keys() == update.blocks.keys()
            for block, other in zip(again.payload[name].blocks.values(), update.blocks.values(), strict=True):
                assert block.values.tobytes() == other.values.tobytes()
