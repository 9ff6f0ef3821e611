"""The splits of all clients together are the splits of each client alone, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl.errors import DataError
from edgefl.experiment.data import client_splits
from edgefl.experiment.data.client_splits import ClientSplits, split_clients, training_counts
from edgefl.experiment.data.split import Indices, Split, split

SHARES = (0.7, 0.2)


def owned(sizes: list[int]) -> list[Indices]:
    order = np.random.default_rng(4).permutation(sum(sizes)).astype(np.int32)
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def name(client: int) -> str:
    return f"client {client}"


def same(found: Split, expected: Split) -> bool:
    parts = ("train", "validation", "test")
    return all(np.array_equal(getattr(found, part), getattr(expected, part)) for part in parts)


@settings(max_examples=30)
@given(st.lists(st.sampled_from([2, 3, 7, 10]), min_size=1, max_size=20), st.integers(0, 2**63), st.booleans())
def test_clients_are_split_as_each_would_be_alone(sizes: list[int], seed: int, are_many: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_splits, "FEW", 2 if are_many else 1000)
        patch.setattr(client_splits, "AT_ONCE", 3)
        mine = owned(sizes)
        found = split_clients(mine, seed, *SHARES, name)
    expected = [split(each, seed, client, *SHARES) for client, each in enumerate(mine)]
    assert len(found) == len(expected) and all(map(same, found, expected))
    assert training_counts(found) == training_counts(expected) == [len(each.train) for each in expected]
    assert all(each.train.dtype == np.int32 for each in found)


def test_parts_of_the_splits_are_splits() -> None:
    mine = owned([3, 4, 5, 6])
    found = split_clients(mine, 1, *SHARES, name)
    assert same(found[-1], split(mine[3], 1, 3, *SHARES))
    for part in (slice(2), slice(2, 4), slice(4, 9), slice(None, None, 2)):
        assert all(map(same, found[part], list(found)[part])) and len(found[part]) == len(list(found)[part])
    assert found[:4] == found and found[:3] != found and found[1:] == ClientSplits.of(list(found)[1:])
    assert training_counts(found[:2]) == [len(each.train) for each in list(found)[:2]]
    with pytest.raises(IndexError):
        found[4]


def test_the_first_client_with_too_few_samples_is_named() -> None:
    with pytest.raises(DataError, match="client 2 gets 0 training and 1 test samples of 1; expected at least one"):
        split_clients(owned([5, 5, 1, 5, 1]), 1, *SHARES, name)
