"""DataSet refuses contradictory arrays and pools its parts. The digits in the package are the published ones."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet


def three_images() -> DataSet:
    x = np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2)
    return DataSet("three", x, np.array([0, 1, 1], np.int32), 2, 1.0, 0.0, groups=np.array([5, 5, 7], np.int32))


def test_length_and_input_shape() -> None:
    assert len(three_images()) == 3
    assert three_images().input_shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((3, 1, 1, 2, 2), np.uint8)}, r"x is uint8 \(3, 1, 1, 2, 2\); expected"),
        ({"x": np.zeros((3, 1, 2, 2), np.float64)}, "x is float64"),
        ({"y": np.zeros(2, np.int32)}, r"y is int32 \(2,\); expected int32 \(3,\)"),
        ({"y": np.zeros(3, np.int64)}, "y is int64"),
        ({"y": np.array([0, 2, 1], np.int32)}, r"y\[1\] is 2; expected 0 <= label < 2"),
        ({"y": np.array([0, 1, -1], np.int32)}, r"y\[2\] is -1"),
        ({"groups": np.zeros(2, np.int32)}, "groups is int32"),
        ({"x_test": np.zeros((1, 1, 2, 2), np.uint8)}, "only one of x_test and y_test"),
        ({"x_test": np.zeros((1, 1, 3, 3), np.uint8), "y_test": np.zeros(1, np.int32)}, r"x_test is uint8 \(1, 3, 3\)"),
    ],
)
def test_contradiction_is_named(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=f"three: {message}"):
        replace(three_images(), **change)


def test_pooled_appends_the_test_part() -> None:
    x_test, y_test = np.full((1, 1, 2, 2), 9, np.uint8), np.array([0], np.int32)
    whole = replace(three_images(), x_test=x_test, y_test=y_test, groups_test=np.array([8], np.int32)).pooled()
    assert whole.y.tolist() == [0, 1, 1, 0]
    assert whole.groups is not None and whole.groups.tolist() == [5, 5, 7, 8]
    assert whole.x[3].tolist() == x_test[0].tolist()
    assert whole.x_test is None and whole.y_test is None


def test_pooled_drops_groups_that_only_one_part_has() -> None:
    x_test, y_test = np.zeros((1, 1, 2, 2), np.uint8), np.array([0], np.int32)
    assert replace(three_images(), x_test=x_test, y_test=y_test).pooled().groups is None


def test_digits_are_the_published_ones() -> None:
    digits = load("digits")
    assert digits.x.shape == (1797, 1, 8, 8) and digits.classes == 10
    assert digits.scale == 1 / 16 and digits.shift == 0 and digits.x.max() == 16
    assert np.bincount(digits.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    first_row_of_first_zero = [0, 0, 5, 13, 9, 1, 0, 0]
    assert digits.x[0, 0, 0].tolist() == first_row_of_first_zero and digits.y[0] == 0
    published = digits.x.tobytes() + digits.y.astype(np.uint8).tobytes()
    assert hashlib.sha256(published).hexdigest().startswith("87ff0c9e40dc7e2c")


def test_the_first_sample_that_is_not_finite_is_named() -> None:
    x = np.zeros((4, 1, 2, 2), np.float32)
    x[2, 0, 1, 0], x[3, 0, 0, 0] = np.nan, np.inf
    with pytest.raises(DataError, match=r"mine: x\[2, 0, 1, 0\] is nan; expected finite values"):
        DataSet("mine", x, np.zeros(4, np.int32), 2, 1.0, 0.0)
