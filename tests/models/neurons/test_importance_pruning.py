"""The change of a mask by importance: by hand on five coordinates, and against a loop over the paper's criterion."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear
from edgefl.models.neurons.importance_pruning import PruningRule, reconfigured, shares_of_time

ONE = {"w": np.array([True, True, True, False, False])}
VALUES = {"w": np.float32([3, -1, 2, 0, 0])}
EQUAL = {"w": 0.2}


def changed(importance: list[float], rule: PruningRule) -> list[bool]:
    return reconfigured(VALUES, ONE, {"w": np.float32(importance)}, EQUAL, rule)["w"].tolist()


@pytest.mark.parametrize(
    ("importance", "rate", "count", "expected"),
    [
        ([0, 0, 0, 5, 4], 1 / 3, 3, [1, 0, 1, 1, 0]),  # -1 leaves, the most important enters
        ([0, 9, 0, 5, 4], 1 / 3, 3, [1, 1, 1, 0, 0]),  # -1 is the most important of the others and returns
        ([0, 0, 0, 5, 4], 0, 3, [1, 1, 1, 0, 0]),  # nothing may leave
        ([0, 0, 0, 5, 5], 2 / 3, 2, [1, 0, 0, 1, 0]),  # of equal importance the first
        ([0, 0, 0, 5, 4], 1 / 3, 1, [1, 0, 1, 0, 0]),  # what may not leave stays, though it is more than asked for
    ],
)
def test_a_mask_of_a_given_size_by_hand(importance: list[float], rate: float, count: int, expected: list[int]) -> None:
    assert changed(importance, PruningRule(rate, count, 0.1)) == [bool(each) for each in expected]


@pytest.mark.parametrize(
    ("fourth", "fifth", "expected"),
    [
        (4.0, 3.0, [1, 0, 1, 1, 1]),  # 1/.5 = 2 before; 4/.2 = 20 raises it to 5/.7 = 7.1; 3/.2 = 15 raises it
        (4.0, 1.0, [1, 0, 1, 1, 0]),  # 1/.2 = 5 is below 7.1
        (0.3, 0.3, [1, 0, 1, 0, 0]),  # 1.5 is below 2
        (0.4, 0.0, [1, 0, 1, 1, 0]),  # 2 is not below 2
    ],
)
def test_the_criterion_by_hand(fourth: float, fifth: float, expected: list[int]) -> None:
    """Coordinates 0 and 2 stay, with importance 1 in all, and take .4 beside a fixed time of .1."""
    found = changed([0.5, 0, 0.5, fourth, fifth], PruningRule(1 / 3, None, 0.1))
    assert found == [bool(each) for each in expected]


def test_it_is_the_papers_loop_on_random_numbers() -> None:
    """Two parameters whose coordinates take different times."""
    stream, shapes = rng.stream(3, rng.INIT), {"a": (4, 5), "b": (6, 3)}
    for _ in range(20):
        values = {n: (stream.uniform(int(np.prod(s))) - 0.5).reshape(s) for n, s in shapes.items()}
        gain = {n: stream.uniform(int(np.prod(s))).reshape(s) ** 4 for n, s in shapes.items()}
        bits = {n: stream.uniform(int(np.prod(s))).reshape(s) < 0.6 for n, s in shapes.items()}
        times = {"a": 0.03, "b": 0.4 / 18}
        places = [(n, i) for n, s in shapes.items() for i in range(int(np.prod(s)))]
        alive = sorted((abs(values[n].flat[i]), n, i) for n, i in places if bits[n].flat[i])
        kept = {(n, i) for _, n, i in alive[int(np.ceil(0.3 * len(alive) - 1e-9)) :]}
        total, time = sum(gain[n].flat[i] for n, i in kept), 0.2 + sum(times[n] for n, _ in kept)
        for n, i in sorted(set(places) - kept, key=lambda at: -gain[at[0]].flat[at[1]] / times[at[0]]):
            if gain[n].flat[i] / times[n] < total / time:
                break
            kept, total, time = kept | {(n, i)}, total + gain[n].flat[i], time + times[n]
        found = reconfigured(values, bits, gain, times, PruningRule(0.3, None, 0.2))
        assert {(n, i) for n, i in places if found[n].flat[i]} == kept


def test_a_coordinate_takes_the_time_of_its_products() -> None:
    """A weight of a convolution multiplies at 9 places, and one of a Linear layer once: 2 * 9 and 36 of 54 products."""
    graph = Graph(
        (1, 3, 3),
        (
            Node("conv", Conv2d(1, 2, (1, 1)), ("input",)),
            Node("flat", Flatten(), ("conv",)),
            Node("fc", Linear(18, 2), ("flat",)),
        ),
    )
    bits = {"conv.weight": np.ones((2, 1, 1, 1), np.bool_), "fc.weight": np.ones((2, 18), np.bool_)}
    assert shares_of_time(graph, bits) == {"conv.weight": 9 / 54, "fc.weight": 1 / 54}
    assert shares_of_time(None, bits) == dict.fromkeys(bits, 1 / 38)
