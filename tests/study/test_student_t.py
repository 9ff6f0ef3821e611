"""Quantiles of Student's t against scipy's, and the few that everybody knows."""

from __future__ import annotations

import math

import pytest

from edgefl.study.student_t import MOST_SUMMED, share_within, two_sided


def test_the_known_quantiles() -> None:
    """With one degree of freedom t is the tangent of an angle, and with two an algebraic number."""
    assert two_sided(1) == pytest.approx(math.tan(math.pi / 2 * 0.95), rel=1e-12)
    assert two_sided(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)
    assert two_sided(10) == pytest.approx(2.228138852, abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 19, 30, 99, 200, MOST_SUMMED, MOST_SUMMED + 1, 10**6])
@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
def test_quantiles_are_scipy_s(freedom: int, share: float) -> None:
    from scipy import stats  # here: each process that collects the tests would take 1.5 s to import it

    assert two_sided(freedom, share) == pytest.approx(stats.t.ppf((1 + share) / 2, freedom), rel=1e-9)


@pytest.mark.parametrize(("t", "freedom"), [(0.0, 3), (0.5, 1), (2.0, 6), (2.0, 7), (12.0, 40)])
def test_shares_are_scipy_s(t: float, freedom: int) -> None:
    from scipy import stats

    assert share_within(t, freedom) == pytest.approx(2 * stats.t.cdf(t, freedom) - 1, abs=1e-12)


@pytest.mark.parametrize(("freedom", "share"), [(0, 0.95), (-3, 0.95), (4, 0.0), (4, 1.0)])
def test_what_there_is_no_quantile_of(freedom: int, share: float) -> None:
    with pytest.raises(ValueError, match=f"freedom={freedom}, share={share}; expected freedom >= 1"):
        two_sided(freedom, share)
