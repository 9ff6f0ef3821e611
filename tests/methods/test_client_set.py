"""A set of clients in order, and the draws from it, which have the bits of a draw from a sorted list."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods.client_set import ClientSet
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import Task
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.small_models import plain

SPEC = ModelSpec.of(plain())

SETS = [
    (ClientSet(range(6)), range(6)),
    (ClientSet(range(6), [0, 3, 9]), (1, 2, 4, 5)),
    (ClientSet(range(3), range(3)), ()),
    (ClientSet(array("q", [2, 5, 7, 9]), [5, 6]), (2, 7, 9)),
    (ClientSet.of([7, 2, 7]).without([3]), (2, 7)),
    (ClientSet(range(6), [1]).without([2, 1]), (0, 3, 4, 5)),
]


@pytest.mark.parametrize(("clients", "expected"), SETS)
def test_a_set_has_its_clients_in_order(clients: ClientSet, expected: tuple[int, ...]) -> None:
    assert clients == frozenset(expected) and len(clients) == len(expected)
    assert list(clients) == [clients[i] for i in range(len(clients))] == list(expected)
    assert [client for client in range(-1, 12) if client in clients] == list(expected)


def test_a_number_beyond_the_set_is_named() -> None:
    with pytest.raises(IndexError, match="client number 3 of 3; expected 0 <= number < 3"):
        ClientSet(range(5), [1, 2])[3]


@pytest.mark.parametrize("out", [(), (0, 4, 19), range(17), range(20)])
def test_a_draw_is_that_of_the_sorted_list(out: tuple[int, ...]) -> None:
    left = [client for client in range(20) if client not in out]
    drawn = np.sort(np.argsort(rng.stream(7, rng.SELECT, round=3).raw(len(left)), kind="stable")[:5])
    expected = [left[i] for i in drawn]
    for candidates in (frozenset(left), ClientSet(range(20), out)):
        task = Task(SPEC, 20, 7, candidates=candidates)
        assert sample_clients(task, range(20), 5, 3) == expected
        assert sample_clients(task, left, 5, 3) == expected
    assert sample_clients(Task(SPEC, 20, 7), left, 5, 3) == expected
