"""Arrays whose axes may be read in two ways, and arrays with missing values: taken as said, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.array_data import own_data
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.missing_values import with_means
from edgefl.experiment.data.npz import read_npz

NAN = float("nan")


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "f.npz", **arrays)
    return folder / "f.npz"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_last_are_asked_about(tmp_path: Path, channels: int) -> None:
    x = np.arange(2 * 6 * 5 * channels, dtype=np.uint8).reshape(2, 6, 5, channels)
    path = npz(tmp_path, x=x, y=[0, 1])
    with pytest.raises(DataError) as error:
        read_npz(path)
    told = f"axes=NHWC if the last {channels} are channels, axes=NCHW if the first 6 are (--axes)"
    assert str(error.value) == f"{path}: x is uint8 (2, 6, 5, {channels}); expected {told}"
    found = read_npz(path, Reading(axes="NHWC"))
    assert found.input_shape == (channels, 6, 5)
    assert found.x[1, channels - 1, 2, 3] == x[1, 2, 3, channels - 1]
    assert read_npz(path, Reading(axes="NCHW")).input_shape == (6, 5, channels)


@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 6, 5), (3, 4, 3), (4, 3, 3), (6, 5, 2), (6, 5, 5), (1, 28, 1)])
def test_other_axes_are_channels_first(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert read_npz(npz(tmp_path, x=np.zeros((2, *shape), np.uint8), y=[0, 1])).input_shape == shape


def test_a_file_may_say_its_axes(tmp_path: Path) -> None:
    x = np.zeros((2, 6, 5, 3), np.uint8)
    assert read_npz(npz(tmp_path, x=x, y=[0, 1], axes="NHWC")).input_shape == (3, 6, 5)


FEATURES = np.array([[1, NAN], [3, 10], [5, 30], [100, 1000]], np.float32)


def test_a_missing_value_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_npz(npz(tmp_path, x=FEATURES, y=[0, 1, 0, 1]))
    expected = "expected finite float32 values, or missing=mean or missing=drop (--missing)"
    assert str(error.value).endswith(f"x[0, 1] is nan; {expected}")


def test_the_mean_is_of_training_samples_alone(tmp_path: Path) -> None:
    data = read_npz(npz(tmp_path, x=FEATURES, y=[0, 1, 0, 1]), Reading(missing="mean"))
    assert data.notes == ("1 values of x are missing; the mean of the training samples takes their place",)
    filled = with_means(data, [np.array([0, 1], np.int32), np.array([2], np.int32)])  # sample 3 tests
    assert filled.x.tolist() == [[1, 20], [3, 10], [5, 30], [100, 1000]]
    assert filled.absent is None


def test_the_test_part_gets_the_mean_of_the_training_part(tmp_path: Path) -> None:
    test = {"x_test": np.array([[NAN, 7]], np.float32), "y_test": [1]}
    data = read_npz(npz(tmp_path, x=FEATURES, y=[0, 1, 0, 1], **test), Reading(missing="mean"))
    filled = with_means(data, [np.array([0, 1, 2], np.int32)])
    assert filled.x_test is not None
    assert filled.x_test.tolist() == [[3, 7]]
    pooled = with_means(data.pooled(), [np.array([1, 4], np.int32)])  # of column 0 one value is there, 3
    assert pooled.x[:, 0].tolist() == [1, 3, 5, 100, 3]


def test_a_column_without_a_training_value_is_named(tmp_path: Path) -> None:
    data = read_npz(npz(tmp_path, x=FEATURES, y=[0, 1, 0, 1]), Reading(missing="mean"))
    with pytest.raises(DataError, match="f: column 1 has no value in any training sample; expected some: --drop"):
        with_means(data, [np.array([0], np.int32)])


def test_samples_are_dropped_with_all_that_is_theirs(tmp_path: Path) -> None:
    path = npz(tmp_path, x=FEATURES, y=[0, 1, 0, 1], group=[7, 8, 9, 7], time=[1.0, 2, 3, 4])
    data = read_npz(path, Reading(missing="drop"))
    assert data.groups is not None and data.times is not None
    assert (data.x.tolist(), data.y.tolist()) == ([[3, 10], [5, 30], [100, 1000]], [1, 0, 1])
    assert (data.groups.tolist(), data.times.tolist()) == ([8, 9, 7], [2, 3, 4])
    assert data.notes == ("1 of 4 samples of x have missing values and are left out",)


@pytest.mark.parametrize(
    ("x", "reading", "message"),
    [
        ([[NAN]], Reading(missing="drop"), "every sample of x has a missing value; expected missing=mean"),
        ([[np.inf]], Reading(missing="mean"), "x[0, 0] is inf; expected finite float32 values"),
        ([[NAN, np.inf]], Reading(missing="mean"), "x[0, 1] is inf; expected finite float32 values"),
        ([[[[NAN]]]], Reading(missing="mean"), "x[0, 0, 0, 0] is nan; expected finite float32 values"),
    ],
)
def test_what_no_mean_helps_is_named(tmp_path: Path, x: Any, reading: Reading, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_npz(npz(tmp_path, x=np.array(x, np.float32), y=[0]), reading)
    assert message in str(error.value)


def test_missing_has_three_choices() -> None:
    with pytest.raises(DataError, match="missing=zero; expected one of refuse, mean, drop"):
        Reading(missing="zero")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ma.masked_array([[1, 2], [3, 4]], [[0, 0], [0, 1]]), r"x\[1, 1\] is masked; expected a value, or floating"),
        (
            np.ma.masked_array([[1.0, 2], [3, 4]], [[0, 0], [0, 1]]),
            r"x\[1, 1\] is nan; expected finite .* missing=mean",
        ),
    ],
)
def test_a_mask_is_not_lost(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        own_data({"x": x, "y": [0, 1]})


def test_a_mask_means_missing() -> None:
    x = np.ma.masked_array([[1.0, 2], [3, 4]], [[0, 0], [0, 1]])
    found = own_data({"x": x, "y": [0, 1], "missing": "drop"}).data
    assert (found.x.tolist(), found.y.tolist()) == ([[1, 2]], [0])
    assert own_data({"x": np.ma.masked_array([[1, 2]], False), "y": [0]}).data.x.tolist() == [[1, 2]]
