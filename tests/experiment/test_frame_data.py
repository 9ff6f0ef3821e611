"""A DataFrame as arrays: by a table of columns, and by pandas itself where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.array_data import own_data
from edgefl.experiment.frame_data import of_frame
from edgefl.experiment.program_data import arrays_in

pandas = pytest.importorskip("pandas", reason="the data are pandas'")


def frame(**more: Any) -> Any:
    """Four rows: what somebody does, who it is, and two inputs."""
    columns = {"steps": [1, 2, 3, 4], "pulse": [60.5, 70, 80, 90], "act": list("abba"), "who": list("xxyy")}
    return pandas.DataFrame({**columns, **more})


SAID = {"label": "act", "group": "who"}


def test_columns_are_what_the_settings_say() -> None:
    found = of_frame(frame(), SAID)
    assert found["x"].tolist() == [[1, 60.5], [2, 70], [3, 80], [4, 90]] and found["x"].dtype == np.float32
    assert (found["y"].tolist(), found["group"].tolist()) == (list("abba"), list("xxyy"))
    data = own_data(arrays_in(frame(), SAID)).data
    assert (data.class_names, data.y.tolist(), data.groups.tolist()) == (("a", "b"), [0, 1, 1, 0], [0, 0, 1, 1])


INPUTS = {
    "booleans": ([True, False, True, True], [1, 0, 1, 1]),
    "small numbers": (np.array([1, 2, 3, 4], np.int8), [1, 2, 3, 4]),
    "pandas' whole numbers": (pandas.array([1, 2, 3, 4], "Int64"), [1, 2, 3, 4]),
    "pandas' numbers": (pandas.array([1.5, 2, 3, 4], "Float32"), [1.5, 2, 3, 4]),
    "pandas' booleans": (pandas.array([True, False, True, True], "boolean"), [1, 0, 1, 1]),
    "categories that are numbers": (pandas.Categorical([4, 3, 4, 3]), [4, 3, 4, 3]),
}


@pytest.mark.parametrize(("column", "expected"), INPUTS.values(), ids=INPUTS)
def test_numbers_of_every_kind_are_inputs(column: Any, expected: list[float]) -> None:
    assert of_frame(frame(more=column), SAID)["x"][:, 2].tolist() == expected


def test_labels_may_be_categories_and_columns_may_be_left_out() -> None:
    found = of_frame(
        frame(act=pandas.Categorical(list("abba")), note=list("wxyz")), {**SAID, "drop": ("note", "pulse")}
    )
    assert found["x"].tolist() == [[1], [2], [3], [4]] and found["y"].tolist() == list("abba")
    assert of_frame(frame(note=list("wxyz")), {**SAID, "drop": "note"})["x"].shape == (4, 2)


def test_times_are_dates() -> None:
    when = pandas.to_datetime(["2026-01-01", "2026-01-03", "2026-01-02", "2026-01-04"])
    data = own_data(arrays_in(frame(when=when), {**SAID, "time": "when"})).data
    assert (np.diff(data.times) / 86400).tolist() == [2, -1, 2]


def test_usual_names_need_no_setting() -> None:
    found = of_frame(pandas.DataFrame({"a": [1, 2], "y": [0, 1], "group": [5, 6]}), {})
    assert {name: value.tolist() for name, value in found.items()} == {"x": [[1], [2]], "y": [0, 1], "group": [5, 6]}


REFUSED = {
    "no label": ({}, {}, "data: the DataFrame has columns steps, pulse, act, who; expected label=, the column to be"),
    "no such label": (
        {},
        {"label": "atc"},
        "data: no column 'atc' in the DataFrame; expected one of steps, pulse, act",
    ),
    "no such column to drop": ({}, {**SAID, "drop": ["x"]}, "data: no column 'x' in the DataFrame"),
    "text": ({}, {"label": "act"}, "data: column 'who' of the DataFrame is"),
    "no value": (
        {"steps": [1, None, 3, 4]},
        SAID,
        "data: column 'steps' of the DataFrame has no value in row 1; expected",
    ),
    "no label in a row": (
        {"act": ["a", "b", None, "a"]},
        SAID,
        "data: column 'act' of the DataFrame has no value in row 2",
    ),
    "infinity": (
        {"steps": [1, 2, 3, np.inf]},
        SAID,
        "data: column 'steps' of the DataFrame has inf in row 3; expected",
    ),
    "nothing else": (
        {},
        {**SAID, "drop": ["steps", "pulse"]},
        "data: the DataFrame has no input columns besides the label act",
    ),
}


@pytest.mark.parametrize(("more", "columns", "message"), REFUSED.values(), ids=REFUSED)
def test_the_column_and_the_row_are_named(more: dict[str, Any], columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        of_frame(frame(**more), columns)
    assert str(error.value).startswith(message)


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pandas.DataFrame([[1, 2, 0]], columns=["a", "a", "y"])
    with pytest.raises(DataError, match="the DataFrame has columns a, a, y; expected each name once"):
        of_frame(twice, {})
