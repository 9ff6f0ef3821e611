"""Differences of two methods on the same clients and seeds: by hand, and against scipy's paired t test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl.study.comparison import compare
from edgefl.study.difference_tables import difference_table, in_words
from edgefl.study.paired_differences import PairedDifference
from edgefl.study.summary import Summary, summarise
from tests.study.test_study_comparison import log_record, record, run, shown, tiers


def test_three_pairs_by_hand() -> None:
    """Differences 1, 2 and 3: mean 2, standard deviation 1, t of two degrees of freedom 4.3027."""
    found = PairedDifference.of([3.0, 5.0, 7.0], [2.0, 3.0, 4.0])
    assert (found.pairs, found.left_out, found.mean) == (3, 0, 2.0)
    half = 4.302652729749464 / 3**0.5
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 20, 200])
def test_intervals_are_scipy_s(count: int) -> None:
    from scipy import stats  # here: each of the processes that collect the tests would take 1.5 s to import it

    chance = np.random.default_rng(count)
    first, second = chance.random(count), chance.random(count)
    found = PairedDifference.of(first.tolist(), second.tolist())
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.5], [0.25], (1, 0.25, None, None)),  # one pair has no interval
        ([], [], (0, None, None, None)),
        ([0.5, None], [0.25, 0.25], (2, None, None, None)),  # a value that is no number
        ([0.5, 0.75], [0.25, 0.5], (2, 0.25, 0.25, 0.25)),  # pairs that differ by as much
    ],
)
def test_pairs_that_have_no_interval(first: list[float | None], second: list[float | None], expected: Any) -> None:
    found = PairedDifference.of(first, second)
    assert (found.pairs, found.mean, found.low, found.high) == expected


def summaries(**correct: list[int | None]) -> list[Summary]:
    return [run(method, of) for method, of in correct.items()]


def test_methods_are_paired_by_client_and_by_seed() -> None:
    """A client has ten samples. Seed 1 has differences .1, .3, .1, .3, and seed 2 has .4 in all. The means are .2 and
    .4.
    """
    by_seed = {
        1: summaries(fedspu=[2, 4, 6, 8], fedavg=[1, 1, 5, 5]),
        2: summaries(fedspu=[5, 5, 5, 5], fedavg=[1, 1, 1, 1]),
    }
    (pair,) = compare(by_seed).pairs
    assert (pair.method, pair.other) == ("fedspu", "fedavg")
    from scipy import stats

    expected = stats.ttest_rel([2, 4, 6, 8], [1, 1, 5, 5]).confidence_interval(0.95)
    first, second = pair.over_clients[1], pair.over_clients[2]
    assert (first.mean, first.low, first.high) == pytest.approx((0.2, expected.low / 10, expected.high / 10))
    assert (second.mean, second.low, second.high) == pytest.approx((0.4, 0.4, 0.4))
    assert (pair.over_seeds.pairs, pair.over_seeds.mean) == (2, pytest.approx(0.3))
    assert pair.over_seeds.high == pytest.approx(0.3 + 12.7062047 * 0.1, rel=1e-6)


def test_a_client_that_one_method_did_not_test_is_left_out() -> None:
    (pair,) = compare({1: summaries(fedspu=[2, 4, None, 8], fedavg=[1, None, 5, 5])}).pairs
    found = pair.over_clients[1]
    assert (found.pairs, found.left_out, found.mean) == (2, 2, pytest.approx(0.2))


def test_losses_are_compared_and_one_that_is_no_number_has_no_difference() -> None:
    def losses(method: str, *sums: float | None) -> Summary:
        log_records = [log_record(1, [record(0)], [1, 2])]
        means = None if None in sums else sum(each / 10 for each in sums if each is not None) / 2
        scores = {"loss": means, "examples": [10, 10], "loss_sum": list(sums), "decisions": 0}
        log_records[0]["evaluation"]["personal"] = scores
        return summarise(method, log_records, tiers(2), {})

    found = compare({1: [losses("a", 20.0, 10.0), losses("b", 10.0, 10.0), losses("c", None, 1.0)]}).pairs
    assert [(pair.method, pair.other) for pair in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found[0].over_clients[1].mean == pytest.approx(0.5)
    assert [pair.over_clients[1].mean for pair in found[1:]] == [None, None]
    assert [in_words(pair.over_clients[1], False) for pair in found] == ["+0.5 [-5.853, +6.853]", "-", "-"]


def test_the_table_has_the_first_method_less_the_others_or_every_pair() -> None:
    of = summaries(fedspu=[2, 4, 6, 8], fedavg=[1, 1, 5, 5], local=[2, 4, 6, 8])
    one = difference_table(compare({1: of}))
    assert one.headings == ("method", "less", "over clients")
    assert one.rows == (("fedspu", "fedavg", "+20.0 [+1.6, +38.4]"), ("fedspu", "local", "+0.0 [+0.0, +0.0]"))
    two = difference_table(compare({1: of, 2: of}), has_all=True)
    assert two.headings == ("method", "less", "over 2 seeds", "over clients of seed 1", "over clients of seed 2")
    assert [row[:2] for row in two.rows] == [("fedspu", "fedavg"), ("fedspu", "local"), ("fedavg", "local")]
    assert "Paired differences of accuracy in points" in shown({1: of, 2: of}) and "…" not in shown({1: of, 2: of})
