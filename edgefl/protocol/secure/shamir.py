"""Shamir's sharing of a secret of 32 bytes. `threshold` shares give the secret, and fewer shares say nothing about it.

The secret is the value at 0 of a random polynomial of degree threshold - 1 over the field of prime_field.py. A share is
the value of the polynomial at the point of its holder. Every share has 33 bytes, whatever the secret is.
The scheme is from Shamir, How to share a secret, 1979.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgefl.protocol.secure.prime_field import (
    PRIME,
    WIDE_BYTES,
    element_from_bytes,
    element_to_bytes,
    elements_from_random,
)

SECRET_BYTES = 32


def random_bytes_needed(threshold: int) -> int:
    """Return how many random bytes `split` takes. Raises ValueError for a threshold below 1."""
    if threshold < 1:
        raise ValueError(f"threshold={threshold}; expected threshold >= 1")
    return WIDE_BYTES * (threshold - 1)


def split(secret: bytes, threshold: int, points: Sequence[int], random: bytes) -> list[bytes]:
    """Return the share of every point.

    secret  32 bytes
    points  positive and distinct
    random  random_bytes_needed(threshold) bytes, which serve no other secret
    Raises  ValueError if the arguments do not fit.
    """
    if len(secret) != SECRET_BYTES or len(random) != random_bytes_needed(threshold):
        raise ValueError(
            f"a secret of {len(secret)} bytes with {len(random)} random bytes; "
            f"expected {SECRET_BYTES} and {random_bytes_needed(threshold)}"
        )
    if len(set(points)) != len(points) or min(points) < 1:
        raise ValueError(f"the points {list(points)}; expected distinct points from 1 on")
    highest, *falling = [*reversed(elements_from_random(random)), int.from_bytes(secret, "little")]
    return [element_to_bytes(_value(highest, falling, point)) for point in points]


def _value(value: int, falling: list[int], point: int) -> int:
    """Return the value of a polynomial by Horner's rule, from its highest coefficient and the lower ones."""
    for coefficient in falling:
        value = value * point + coefficient  # one reduction at the end takes a third of the time of one for each step
    return value % PRIME


def weights_at_zero(points: Sequence[int]) -> list[int]:
    """Return Lagrange's weights: the weighted sum of the values at distinct points is the value at 0."""
    weights = []
    for point in points:
        numerator = denominator = 1
        for other in points:
            if other != point:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - point) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return weights


def combine(shares: Sequence[bytes], weights: Sequence[int]) -> bytes:
    """Return the secret of `threshold` shares.

    weights  weights_at_zero of the points of the shares, in the order of the shares
    Raises   ValueError if the shares do not belong to a secret of 32 bytes, as far as this can be seen.
    """
    value = sum(element_from_bytes(share) * weight for share, weight in zip(shares, weights, strict=True)) % PRIME
    if value >> (8 * SECRET_BYTES):
        raise ValueError(f"shares of a value with more than {8 * SECRET_BYTES} bits; expected shares of one secret")
    return value.to_bytes(SECRET_BYTES, "little")
