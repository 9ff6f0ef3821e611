"""A client's own split: how many samples each part gets, and that they are the client's."""

import numpy as np
import pytest

from edgefl.experiment.data.split import parts, training_samples
from edgefl.rng import SPLIT, stream


def test_split_of_ten() -> None:
    indices = np.arange(100, 110, dtype=np.int32)
    train, validation, test = parts(indices, stream(1, SPLIT), carve=0.2)
    assert (len(train), len(validation), len(test)) == (6, 1, 3)
    assert sorted([*train, *validation, *test]) == indices.tolist()


@pytest.mark.parametrize(("n", "counts"), [(0, (0, 0, 0)), (1, (0, 0, 1)), (2, (1, 0, 1)), (90, (57, 6, 27))])
def test_split_counts_are_floored(n: int, counts: tuple[int, int, int]) -> None:
    found = parts(np.arange(n, dtype=np.int32), stream(1, SPLIT))
    assert tuple(map(len, found)) == counts


def test_carving_leaves_the_test_part_alone() -> None:
    indices = np.arange(50, dtype=np.int32)
    without, carved = (parts(indices, stream(1, SPLIT), carve=carve) for carve in (0.0, 0.3))
    assert without[2].tolist() == carved[2].tolist()
    assert sorted([*carved[0], *carved[1]]) == without[0].tolist()


def test_a_wrong_share_is_named() -> None:
    with pytest.raises(ValueError, match=r"train=1\.2, carve=0\.1; expected 0 <= train <= 1"):
        parts(np.arange(3, dtype=np.int32), stream(1, SPLIT), train=1.2)


@pytest.mark.parametrize("n", [2, 9, 10, 90, 1163])
def test_what_a_device_trains_on_follows_from_all_of_its_samples(n: int) -> None:
    found = parts(np.arange(n, dtype=np.int32), stream(1, SPLIT), 0.8, 0.1)
    assert training_samples([n], 0.8, 0.1) == len(found[0])


def test_what_a_device_trains_on_is_its_first_part_where_it_says_three() -> None:
    assert training_samples([70, 8, 33], 0.8, 0.1) == 70


def test_nobody_trains_on_nothing() -> None:
    """A declaration of none would else let a reply claim anything."""
    assert training_samples([0], 0.8, 0.1) == training_samples([0, 5, 5], 0.8, 0.1) == 1
