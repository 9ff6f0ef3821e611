"""No order of messages opens both secrets of a client, whatever a lying server and its colluder send."""

from __future__ import annotations

import pytest

from bench.secure.liars_messages import SmallGroup
from bench.secure.message_orders import BothSeedsError, breach, search, walk


def test_all_orders_for_three_clients_and_a_liar() -> None:
    assert SmallGroup.of(3).terms.threshold == 3
    assert search(SmallGroup.of(3)) == (13_110, 33_840, 55_098)


def test_a_threshold_that_is_too_low_is_found() -> None:
    assert search(SmallGroup.of(2)).states == 22
    with pytest.raises(BothSeedsError, match="own seed of client"):
        search(SmallGroup.of(2, threshold=2))


def test_random_orders_for_four_clients_and_a_liar() -> None:
    """`python -m bench secure orders` walks for ten minutes."""
    assert SmallGroup.of(4).terms.threshold == 4
    assert walk(SmallGroup.of(4), seconds=1, seed=3).messages > 0


def test_a_colluder_counts_as_the_holder_of_a_share_of_both_secrets() -> None:
    group = SmallGroup.of(3)
    opened = {("own", 0, 1), ("own", 0, 2), ("mask", 0, 1), ("mask", 0, 2)}
    assert breach(group, frozenset(opened)) is None
    assert breach(group, frozenset({*opened, ("shared", 0, 3)})) is not None
    assert breach(group, frozenset({*opened, ("shared", 1, 3)})) is None
