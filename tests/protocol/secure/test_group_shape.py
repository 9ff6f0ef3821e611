"""The threshold and the graph of a group follow from its numbers, and a device refuses other ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from edgefl.protocol.secure.group_shape import GroupShape, complete_shape, is_safe, shape_for
from edgefl.protocol.secure.mask_graph import MaskGraph

DIGEST = bytes(32)


def hypergeometric(total: int, marked: int, drawn: int, at_least: int) -> Fraction:
    """Return the probability of at least so many marked ones among those drawn."""
    ways = sum(comb(marked, k) * comb(total - marked, drawn - k) for k in range(at_least, min(marked, drawn) + 1))
    return Fraction(ways, comb(total, drawn))


@pytest.mark.parametrize(
    ("clients", "colluders", "threshold"),
    [(3, 0, 3), (4, 1, 3), (5, 0, 3), (6, 0, 4), (50, 0, 26), (50, 10, 31), (99, 0, 50), (100, 1, 51)],
)
def test_two_sets_of_the_threshold_have_an_honest_client_in_common(
    clients: int, colluders: int, threshold: int
) -> None:
    assert shape_for(clients, colluders, 0, 3) == GroupShape(clients - 1, threshold)
    assert 2 * threshold > clients + colluders
    assert 2 * (threshold - 1) <= clients + colluders or threshold == 3


@pytest.mark.parametrize(
    ("clients", "colluders", "losses"), [(101, 0, 10), (120, 12, 36), (500, 25, 50), (1000, 100, 300)]
)
def test_a_sparse_graph_has_the_probabilities_that_it_promises(clients: int, colluders: int, losses: int) -> None:
    degree, threshold = shape_for(clients, colluders, losses, 3)
    assert degree < clients - 1
    assert degree % 2 == 0
    learns = hypergeometric(clients - losses - 1, colluders, degree, threshold)
    assert clients * learns <= Fraction(1, 2**40)
    assert clients * Fraction(colluders + losses, clients) ** (degree // 2) <= Fraction(1, 2**40)
    enough = hypergeometric(clients - 1, clients - 1 - losses, degree, threshold)
    assert clients * (1 - enough) <= Fraction(1, 2**30)
    assert is_safe(clients, colluders, losses, 3, GroupShape(degree, threshold))
    assert not is_safe(clients, colluders, losses, 3, GroupShape(degree, 2))
    assert not is_safe(clients, colluders, losses, 3, GroupShape(degree, degree + 2))
    assert not is_safe(clients, colluders, losses, 3, GroupShape(degree - 1, threshold))
    assert not is_safe(clients, colluders, losses, 3, GroupShape(4, threshold))


def test_a_complete_group_is_not_thinned() -> None:
    assert is_safe(50, 0, 10, 3, GroupShape(49, 26))
    assert not is_safe(50, 0, 10, 3, GroupShape(48, 26))
    assert not is_safe(50, 0, 10, 3, GroupShape(49, 25))
    assert not is_safe(50, 0, 10, 3, GroupShape(49, 27))


def test_many_losses_make_a_large_group_complete() -> None:
    assert shape_for(110, 50, 50, 3) == complete_shape(110, 50, 3)


def test_a_ring_joins_the_nearest_on_both_sides() -> None:
    graph = MaskGraph(range(10), 4, DIGEST)
    assert graph.neighbours(graph._order[0]) == sorted(graph._order[each] for each in (1, 2, 8, 9))
    for client in range(10):
        assert len(graph.neighbours(client)) == 4
        assert all(client in graph.neighbours(other) for other in graph.neighbours(client))
    assert MaskGraph(range(10), 4, b"other")._order != graph._order
    assert MaskGraph(range(10), 9, DIGEST).neighbours(3) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def reached(graph: MaskGraph, clients: tuple[int, ...]) -> set[int]:
    """Return the clients that masks connect with the first one, by a search."""
    found, open_ = {clients[0]}, [clients[0]]
    while open_:
        for other in {*graph.neighbours(open_.pop())} & {*clients} - found:
            found.add(other)
            open_.append(other)
    return found


@pytest.mark.parametrize("degree", [2, 4, 9])
def test_gaps_on_the_ring_say_whether_clients_are_connected(degree: int) -> None:
    graph = MaskGraph(range(10), degree, DIGEST)
    both = set()
    for size in range(1, 11):
        for clients in combinations(range(10), size):
            both.add(graph.is_connected(clients))
            assert graph.is_connected(clients) == (reached(graph, clients) == {*clients})
    assert both == ({True} if degree == 9 else {True, False})
