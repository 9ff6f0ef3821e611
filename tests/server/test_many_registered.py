"""A round costs its devices, and not the registered clients: the steps of Python and the memory are counted."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from edgefl.methods import FedAvg
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.protocol.wire.messages import Train, Trained
from edgefl.server import client_bitmap
from edgefl.server.client_choice import ClientChoice
from edgefl.server.coordinator import Coordinator
from edgefl.server.device_activity import AWAITED, AWAY
from edgefl.server.events import Action, DeviceJoined, DeviceLeft, MessageReceived, RoundOpened, Send
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress
from tests.server.played import coordinator, play, saved

FEW, MANY, STRANGE = 200, 20_000, 10
BYTES = 40  # for each registered client: the words of a draw, and the ids and the bits of a bitmap
RULES = {
    "all": Rules(rounds=9, eval_every=9),
    "enrolled": Rules(rounds=9, eval_every=9, among_enrolled=True),
    "seen": Rules(rounds=9, eval_every=9, seen_s=60.0),
    "condition": Rules(rounds=9, eval_every=9, choice=ClientChoice.parse("client >= 0 and seen < 60")),
    "asynchronous": Rules(rounds=9, eval_every=9, seen_s=60.0, asynchronous=AsynchronousRounds(2, 4)),
}


class Steps:
    """The number of lines that have been executed, and the largest memory, between `with` and its end."""

    lines = peak = 0

    def __enter__(self) -> Steps:
        tracemalloc.start()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        self.lines += event == "line"
        return self._called


def play_round(under_test: Coordinator, opened: RoundOpened, now: float) -> list[Action]:
    """Join the devices of the round, and reply for them. Return the actions that follow."""
    joined = play(under_test, *(DeviceJoined(10 + k, k, 1.0, 0) for k in opened.clients), now=now)
    asked = [each for each in joined if isinstance(each, Send) and isinstance(each.message, Train)]
    asked = asked or [Send(10 + k, Train(opened.round, b"", {}, {}, None, True)) for k in opened.clients]
    payload = {name: data for each in asked for name, data in each.message.payload.items()}  # type: ignore[union-attr]
    reply = Trained(opened.round, payload, b"", 5, 1, "on", {}, 0.0)
    return play(under_test, *(MessageReceived(10 + k, reply) for k in opened.clients), now=now)


def steps(clients: int, rules: Rules) -> Steps:
    """Return the steps of a round, of its bitmap and of a look at its devices, with so many registered clients."""
    stored = Progress(dict.fromkeys(range(clients), 1.0))
    under_test = coordinator(rules, FedAvg(per_round=4), clients + STRANGE, stored)
    (first,) = saved(under_test.start(0.0))
    assert isinstance(first, RoundOpened)
    counted = Steps()
    later = play_round(under_test, first, 100.0)
    *_, second = [record for record in saved(later) if isinstance(record, RoundOpened)]
    with counted:
        later = play_round(under_test, second, 100.0)
        *_, third = [record for record in saved(later) if isinstance(record, RoundOpened)]
        if third.candidates is not None:
            client_bitmap.pack(third.candidates)
        assert len(under_test.activities(())) <= 16
    return counted


@pytest.mark.parametrize("mode", RULES)
def test_a_round_takes_no_step_for_every_registered_client(mode: str) -> None:
    few, many = steps(FEW, RULES[mode]), steps(MANY, RULES[mode])
    assert few.lines > 500
    assert many.lines < 1.1 * few.lines + 200
    assert many.peak - few.peak < BYTES * MANY


def test_others_are_awaited_by_an_evaluation_alone() -> None:
    under_test = coordinator(replace(RULES["all"], rounds=1, eval_every=1), FedAvg(per_round=1), 3, Progress({0: 1.0}))
    (opened,) = saved(under_test.start(0.0))
    assert isinstance(opened, RoundOpened)
    assert under_test.activity_of_others == AWAY
    play_round(under_test, opened, 0.0)
    assert (under_test.phase, under_test.activity_of_others) == ("scoring", AWAITED)
    (client,) = opened.clients
    play(under_test, DeviceLeft(10 + client))
    assert under_test.activities([2]) == {2: AWAITED}
