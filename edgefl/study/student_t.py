"""Quantiles of Student's t distribution with whole degrees of freedom. Only the standard library is used, because a
device and a server have no scipy.

Source  Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4 (finite sums of the share within
        t), and 26.7.5 (expansion in 1 / degrees of freedom)
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

MOST_SUMMED = 1000  # degrees of freedom above which the expansion is right to 1e-10


@lru_cache(maxsize=256)
def two_sided(freedom: int, share: float = 0.95) -> float:
    """Return the t for which this share of the distribution lies between -t and t. Raises ValueError out of range.

    freedom  degrees of freedom, at least 1
    share    share of the distribution, between 0 and 1
    """
    if freedom < 1 or not 0 < share < 1:
        raise ValueError(f"freedom={freedom}, share={share}; expected freedom >= 1 and 0 < share < 1")
    if freedom > MOST_SUMMED:
        return _expanded(freedom, NormalDist().inv_cdf((1 + share) / 2))
    low, high = 0.0, 1.0
    while share_within(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def share_within(t: float, freedom: int) -> float:
    """Return the share of the distribution from -t to t."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, is_odd = math.cos(angle), freedom % 2
    term, total = (cosine if is_odd else 1.0), 0.0
    for k in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= (k - 1) / k * cosine**2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total


def _expanded(freedom: int, z: float) -> float:
    """Return the quantile for many degrees of freedom. `z` is the quantile of the normal distribution."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
