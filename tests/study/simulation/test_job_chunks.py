"""The assignment of jobs to workers, and the place of each state."""

from __future__ import annotations

from edgefl.study.simulation.job_chunks import LARGEST, ClientStatePlacement, Queue


def nobody(position: int) -> None:
    return None


def test_chunks_shrink_as_less_is_left_and_every_position_is_taken_once() -> None:
    queue, sizes, taken = Queue(100, 2), [], []
    while positions := queue.take(len(sizes) % 2, nobody):
        sizes.append(len(positions))
        taken += positions
    assert taken == list(range(100))
    assert sizes[:3] == [13, 11, 10]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-8:] == [1] * 8


def test_a_chunk_is_never_larger_than_the_limit() -> None:
    assert len(Queue(10_000, 2).take(0, nobody)) == LARGEST


def test_a_worker_takes_its_own_clients_first_and_others_last() -> None:
    holders = [1, None, 0, 1, None, 0, 1, 1]
    queue = Queue(8, 1)
    assert queue.take(0, holders.__getitem__) == [2, 5]
    assert queue.take(0, holders.__getitem__) == [1, 4]
    assert queue.take(0, holders.__getitem__) == [0]


def test_positions_put_back_are_taken_again_in_order() -> None:
    queue = Queue(8, 1)
    first = queue.take(0, nobody)
    assert first == [0, 1]
    queue.put_back(first)
    assert queue.take(0, nobody) == [0, 1]


def test_a_state_is_held_by_the_worker_that_had_it_last_as_of_that_round() -> None:
    holdings = ClientStatePlacement(100)
    holdings.hold(0, 7, 3, 10)
    assert holdings.holder(7, 3) == 0
    assert holdings.holder(7, 2) is None  # the client went back to what it kept before
    assert holdings.holder(8, 3) is None
    holdings.hold(1, 7, 3, 10)
    assert holdings.holder(7, 3) == 1
    assert holdings.dropped(0) == [(7, 3)]
    assert holdings.dropped(0) == []


def test_what_was_used_longest_ago_makes_room() -> None:
    holdings = ClientStatePlacement(20)
    for client in (1, 2):
        holdings.hold(0, client, 5, 10)
    holdings.use(1)
    holdings.hold(0, 3, 5, 10)
    assert [holdings.holder(client, 5) for client in (1, 2, 3)] == [0, None, 0]
    assert holdings.dropped(0) == [(2, 5)]


def test_a_state_that_came_back_is_not_dropped() -> None:
    holdings = ClientStatePlacement(100)
    holdings.hold(0, 1, 5, 10)
    holdings.hold(1, 1, 5, 10)
    holdings.hold(0, 1, 5, 10)
    assert holdings.dropped(0) == []
    assert holdings.dropped(1) == [(1, 5)]


def test_the_newer_state_of_a_client_replaces_the_older_one_alone() -> None:
    holdings = ClientStatePlacement(100)
    holdings.hold(0, 1, 5, 10)
    holdings.hold(0, 1, 6, 10)
    assert holdings.holder(1, 5) is None
    assert holdings.dropped(0) == [(1, 5)]  # an actor that has it as of round 6 keeps that


def test_a_lost_worker_has_nothing() -> None:
    holdings = ClientStatePlacement(100)
    holdings.hold(0, 1, 5, 10)
    holdings.hold(1, 2, 5, 10)
    holdings.hold(1, 1, 6, 10)
    holdings.lose(0)
    holdings.lose(1)
    assert [holdings.holder(1, 6), holdings.holder(2, 5), holdings.dropped(0)] == [None, None, []]
