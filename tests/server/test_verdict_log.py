"""The server's memory of replies: enough for every question, and no more in a run of any length."""

from __future__ import annotations

from edgefl.server.run_progress import Ruling
from edgefl.server.verdict_log import KEPT, Rulings

ACCEPTED = Ruling("accepted", "")


def rounds_of(rulings: Rulings, client: int, last: int) -> list[int]:
    return [round for round in range(1, last + 1) if round in rulings._rounds[client]]


def test_the_last_rulings_of_a_client_are_kept() -> None:
    rulings = Rulings({}, {})
    for round in range(1, 1001):
        rulings.plan(round, [0, 1])
        rulings.rule(round, 0, ACCEPTED)
    assert rounds_of(rulings, 0, 1000) == list(range(1001 - KEPT, 1001))
    assert rulings.of(1000, 0) == ACCEPTED


def test_a_client_that_does_not_answer_may_still_come_with_any_of_its_rounds() -> None:
    rulings = Rulings({}, {})
    for round in range(1, 11):
        rulings.plan(round, [0])
    assert rounds_of(rulings, 0, 10) == list(range(1, 11))
    assert rulings.of(3, 0) is None
    rulings.rule(3, 0, Ruling("late", "the round was closed"))
    assert rounds_of(rulings, 0, 10) == list(range(3, 11))


def test_a_log_gives_the_same() -> None:
    logged = {(1, 0): ACCEPTED, (1, 1): None, (2, 0): None, (3, 0): ACCEPTED, (4, 0): None}
    rulings = Rulings(logged, {})
    assert (rounds_of(rulings, 0, 4), rounds_of(rulings, 1, 4)) == ([1, 3, 4], [1])
    assert (rulings.is_planned(1, 2), rulings.outcome(1, 2), rulings.outcome(1, 1)) == (False, None, None)


def test_whether_a_client_kept_what_it_trained_is_never_forgotten() -> None:
    rulings = Rulings({}, {7: 0b110})
    for round in range(1, 1001):
        rulings.plan(round, [0])
        rulings.rule(round, 0, Ruling("refused", "why") if round == 1000 else ACCEPTED)
    assert [rulings.has_trained(round, 0) for round in (1, 500, 999, 1000)] == [True, True, True, False]
    assert [rulings.last_trained(client) for client in (0, 7, 8)] == [999, 2, 0]
    assert (rulings.is_planned(2, 0), rulings.of(2, 0), rulings.outcome(2, 0)) == (True, ACCEPTED, "accepted")
    assert rulings.outcome(1000, 0) == "refused"


def test_a_client_that_lost_its_state_after_its_answer_came_into_the_round_with_it() -> None:
    """A server that is started again makes the plan that the client has answered, and takes the answer in."""
    rulings = Rulings({(4, 8): ACCEPTED}, {8: 1 << 2, 9: 1 << 2})
    assert rulings.lost_before(4, [(8, 4)]) == frozenset()
    assert rulings.lost_before(4, [(8, 2), (9, 2), (9, 1)]) == {8, 9}
    assert rulings.lost_before(5, [(8, 4), (9, 1)]) == {8}
