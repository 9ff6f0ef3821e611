"""Shamir's sharing, against published numbers and two other ways to interpolate."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from edgefl.protocol.secure.prime_field import (
    PRIME,
    WIDE_BYTES,
    element_from_bytes,
    element_to_bytes,
    elements_from_random,
)
from edgefl.protocol.secure.shamir import combine, random_bytes_needed, split, weights_at_zero

PUBLISHED = {1: 1494, 2: 1942, 3: 2578, 4: 3402, 5: 4414, 6: 5614}  # 1234 + 166 x + 94 x^2, an example of Wikipedia


def secret_of(number: int) -> bytes:
    return number.to_bytes(32, "little")


def by_fractions(points: list[int], values: list[int]) -> int:
    """Return the value at 0 by Newton's divided differences over the rationals, reduced at the end."""
    table = [Fraction(value) for value in values]
    for level in range(1, len(points)):
        for place in range(len(points) - 1, level - 1, -1):
            table[place] = (table[place] - table[place - 1]) / (points[place] - points[place - level])
    total = Fraction(0)
    for place in range(len(points) - 1, -1, -1):
        total = total * -points[place] + table[place]
    return total.numerator * pow(total.denominator, PRIME - 2, PRIME) % PRIME


def by_elimination(points: list[int], values: list[int]) -> int:
    """Return the constant coefficient by Gauss elimination of the Vandermonde matrix modulo the prime."""
    rows = [[pow(point, k, PRIME) for k in range(len(points))] + [value] for point, value in zip(points, values)]
    for column in range(len(points)):
        inverse = pow(rows[column][column], -1, PRIME)
        rows[column] = [each * inverse % PRIME for each in rows[column]]
        for other in range(len(points)):
            if other != column:
                factor = rows[other][column]
                rows[other] = [(a - factor * c) % PRIME for a, c in zip(rows[other], rows[column])]
    return rows[0][-1]


def test_the_prime_is_the_first_above_two_to_the_256th() -> None:
    def is_probably_prime(number: int) -> bool:
        return all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7))

    assert PRIME == 2**256 + 297
    assert [offset for offset in range(1, 298, 2) if is_probably_prime(2**256 + offset)] == [297]


def test_published_shares() -> None:
    shares = split(secret_of(1234), 3, [*PUBLISHED], element_to_bytes_wide(166) + element_to_bytes_wide(94))
    assert [element_from_bytes(each) for each in shares] == [*PUBLISHED.values()]
    assert combine([shares[1], shares[3], shares[4]], weights_at_zero([2, 4, 5])) == secret_of(1234)


def element_to_bytes_wide(element: int) -> bytes:
    return element.to_bytes(WIDE_BYTES, "little")


@pytest.mark.parametrize("threshold", [1, 2, 3, 7, 26])
def test_any_set_of_the_threshold_gives_the_secret(threshold: int) -> None:
    draw = random.Random(threshold)
    secret, points = draw.randbytes(32), draw.sample(range(1, 10_000), threshold + 5)
    shares = split(secret, threshold, points, draw.randbytes(random_bytes_needed(threshold)))
    for _ in range(5):
        chosen = draw.sample(range(len(points)), threshold)
        some, values = [points[each] for each in chosen], [element_from_bytes(shares[each]) for each in chosen]
        assert combine([shares[each] for each in chosen], weights_at_zero(some)) == secret
        assert secret_of(by_fractions(some, values)) == secret
        assert secret_of(by_elimination(some, values)) == secret


def test_one_share_less_fits_every_secret_with_one_polynomial() -> None:
    """Whatever the secret were, exactly one value of the missing share would give it: two shares say nothing."""
    shares = split(secret_of(5), 3, [1, 2, 3], element_to_bytes_wide(7) + element_to_bytes_wide(11))
    weights = weights_at_zero([1, 2, 3])
    for other in (0, 5, 2**256 - 1):
        rest = sum(element_from_bytes(each) * weight for each, weight in zip(shares[:2], weights))
        third = (other - rest) * pow(weights[2], -1, PRIME) % PRIME
        assert combine([*shares[:2], element_to_bytes(third)], weights) == secret_of(other)


def test_the_largest_secret_and_shares_of_one_size() -> None:
    for secret in (bytes(32), 32 * b"\xff"):
        shares = split(secret, 3, range(1, 101), random.Random(0).randbytes(96))
        assert {len(each) for each in shares} == {33}
        assert combine(shares[97:], weights_at_zero([98, 99, 100])) == secret


def test_random_bytes_become_elements_below_the_prime() -> None:
    assert elements_from_random(48 * b"\xff" + PRIME.to_bytes(48, "little")) == [(2**384 - 1) % PRIME, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((bytes(31), 2, [1, 2], bytes(48)), "a secret of 31 bytes with 48 random bytes; expected 32 and 48"),
        ((bytes(32), 3, [1, 2, 3], bytes(48)), "expected 32 and 96"),
        ((bytes(32), 2, [0, 2], bytes(48)), "expected distinct points from 1 on"),
        ((bytes(32), 2, [2, 2], bytes(48)), "expected distinct points from 1 on"),
        ((bytes(32), 0, [1, 2], b""), "threshold=0; expected threshold >= 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split(*arguments)


def test_shares_that_are_not_elements_or_not_of_one_secret_are_refused() -> None:
    with pytest.raises(ValueError, match="a field element of 33 bytes"):
        combine([PRIME.to_bytes(33, "little")], [1])
    with pytest.raises(ValueError, match="a field element of 32 bytes"):
        combine([bytes(32)], [1])
    with pytest.raises(ValueError, match="more than 256 bits"):
        combine([(2**256).to_bytes(33, "little")], [1])
