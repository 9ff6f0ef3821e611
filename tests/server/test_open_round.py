"""An open round waits for the clients that are left in it, and reads a device's word that it has trained as a reply."""

from __future__ import annotations

import math

import pytest

from edgefl.methods.plan import Plan
from edgefl.methods.task import State, Task
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import GroupReady, Trained
from edgefl.server.open_round import OpenRound, as_trained
from tests.server.played import GRAPH, Sum, trained


def opened(*clients: int) -> OpenRound:
    plans = [Plan("train", 1, client) for client in clients]
    return OpenRound(Task(ModelSpec.of(GRAPH), 3, seed=1), Sum(), State({}, {"total": 0}), plans, 1, "float32")


def test_a_round_does_not_wait_for_a_client_that_it_has_forgotten() -> None:
    round = opened(0, 1)
    round.judge(1, trained(1))
    assert not round.is_complete(None)
    round.forget(0)
    assert round.is_complete(None)


def test_an_answer_of_a_forgotten_client_fills_no_quorum() -> None:
    round = opened(0, 1)
    round.judge(0, trained(1))
    assert round.is_complete(1)
    round.forget(0)
    assert not round.is_complete(1)


def test_a_device_s_word_that_it_has_trained_is_a_reply_without_values() -> None:
    word = GroupReady(3, b"12345678", 7, 2, 1.5, b"")
    assert as_trained(word) == Trained(3, {}, b"12345678", 7, 2, "on", {}, 1.5)


@pytest.mark.parametrize(("seconds", "taken"), [(0.0, 0.0), (2.5, 2.5), (-1.0, 0.0), (math.inf, 0.0), (math.nan, 0.0)])
def test_seconds_that_cannot_be_are_taken_as_zero(seconds: float, taken: float) -> None:
    assert as_trained(GroupReady(1, b"", 7, 2, seconds, b"")).seconds == taken
