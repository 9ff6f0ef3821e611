"""The search of options: equal numbers of trials, growth at an edge, own constants, and rates between the best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.papers.fair import FAIR, said
from bench.papers.search import Tried, best_of, next_trial
from edgefl.study.paired_differences import PairedDifference

OWN = ({"mu": 0.1}, {"mu": 1.0})


def peak(at: float, mu: float = 0.01) -> Callable[[dict[str, Any]], float]:
    """Return an accuracy that is 1 at one rate and value of mu, and lower elsewhere."""
    return lambda values: 1 - abs(values["lr"] - at) / 10 - abs(values.get("mu", 0.01) - mu) / 10


# by case: own constants, accuracy by values, and what is tried in order
SEARCHES: dict[str, tuple[Any, Any, list[dict[str, Any]]]] = {
    "inside: between 0.3 and its better neighbour 0.1": (
        (), peak(0.25), [{"lr": 0.1}, {"lr": 0.3}, {"lr": 1.0}, {"lr": 0.17}, {"lr": 0.23}, {"lr": 0.26}]
    ),
    "growth beyond the upper edge until the best is inside": (
        (), peak(4.0), [{"lr": 0.1}, {"lr": 0.3}, {"lr": 1.0}, {"lr": 3.0}, {"lr": 9.0}, {"lr": 1.7}]
    ),
    "growth leaves the trials of the own constants": (
        OWN, peak(9.0, 1.0),
        [{"lr": 0.1}, {"lr": 0.3}, {"lr": 1.0}, {"lr": 3.0}, {"lr": 3.0, "mu": 0.1}, {"lr": 3.0, "mu": 1.0}]
    ),
    "the last trial is at the best constants": (
        OWN, peak(0.3, 1.0),
        [{"lr": 0.1}, {"lr": 0.3}, {"lr": 1.0}, {"lr": 0.3, "mu": 0.1}, {"lr": 0.3, "mu": 1.0}, {"lr": 0.17, "mu": 1.0}]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES)
def test_a_search_has_six_trials_in_this_order(case: str) -> None:
    own, accuracy, expected = SEARCHES[case]
    tried: list[Tried] = []
    while (values := next_trial("lr", (0.1, 0.3, 1.0), own, tried, 6)) is not None:
        tried.append(Tried(values, accuracy(values), 1.0))
    assert [each.values for each in tried] == expected


def test_the_best_trial_has_the_lower_loss_at_equal_accuracy_and_a_diverged_trial_loses() -> None:
    tried = [Tried({"lr": 1}, None, None), Tried({"lr": 2}, 0.5, 0.9), Tried({"lr": 3}, 0.5, 0.8)]
    assert best_of(tried).values == {"lr": 3}
    assert best_of(tried[:1]).values == {"lr": 1}


def test_every_method_has_room_for_its_own_constants() -> None:
    most = max(len(method.own) for method in FAIR.methods.values())
    assert 3 + most < FAIR.trials


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        ((90.0, 91.0, 92.0), (80.0, 80.0, 80.0), "+11.0 (+8.5 to +13.5), ahead"),
        ((80.0, 80.0, 80.0), (90.0, 91.0, 92.0), "-11.0 (-13.5 to -8.5), behind"),
        ((90.0, 91.0, 92.0), (89.0, 89.0, 89.0), "+2.0 (-0.5 to +4.5), not shown"),
        ((90.0,), (80.0,), "+10.0 (one seed)"),
    ],
)
def test_a_difference_counts_where_its_whole_interval_is_on_one_side(ours: Any, theirs: Any, text: str) -> None:
    assert said(PairedDifference.of(ours, theirs)) == text
