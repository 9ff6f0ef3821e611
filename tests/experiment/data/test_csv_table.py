"""CSV files: which column is what, and one sentence for each that is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.csv_table import read_table

WALKS = """user,when,steps,speed,activity
anna,2026-01-02,10,1.5,walk
ben,2026-01-01,20,3,run
anna,2026-01-01T12:00:00,0,0,sit
"""
PERSONS = Reading(label="activity", group="user", time="when")


def table(folder: Path, text: str) -> Path:
    path = folder / "walks.csv"
    path.write_text(text, "utf-8")
    return path


def test_every_column_is_what_it_was_said_to_be(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, WALKS), PERSONS)
    assert found.name == "walks"
    assert found.x.dtype == np.float32
    assert found.x.tolist() == [[10, 1.5], [20, 3], [0, 0]]
    assert found.columns == ("steps", "speed")
    assert (found.class_names, found.y.tolist(), found.classes) == (("run", "sit", "walk"), [2, 0, 1], 3)
    assert found.groups is not None and found.times is not None
    assert (found.group_names, found.groups.tolist()) == (("anna", "ben"), [0, 1, 0])
    assert found.times[0] - found.times[2] == 12 * 3600


@pytest.mark.parametrize("separator", ",;\t")
def test_the_separator_is_the_one_of_the_heading(tmp_path: Path, separator: str) -> None:
    text = separator.join(["a", "label"]) + "\n" + separator.join(["2", "1"]) + "\r\n"
    found = read_table(table(tmp_path, "\ufeff" + text))
    assert (found.x.tolist(), found.y.tolist(), found.classes) == ([[2]], [1], 2)


def test_numbers_with_fractions_are_values(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, "a,y\n1,0.5\n2,3\n"))
    assert not found.has_labels
    assert found.y.tolist() == [[0.5], [3]]


def test_groups_that_are_numbers_stay_so(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, "a,y,group\n1,0,7\n2,1,-1\n"))
    assert found.groups is not None and found.groups.tolist() == [7, -1]
    assert found.group_names is None


def test_columns_can_be_left_out(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, WALKS), Reading(label="activity", drop=("user", "when", "speed")))
    assert found.x.tolist() == [[10], [20], [0]]


@pytest.mark.parametrize(
    ("text", "reading", "message"),
    [
        (WALKS, Reading(), "no column label or y among user, when, steps, speed, activity; expected the label's name"),
        (WALKS, Reading(label="mood"), "no column 'mood'; expected one of user, when"),
        (WALKS, Reading(label="activity"), "line 2 has 'anna' in column user; expected a finite number"),
        (WALKS, Reading(label="activity", axes="NF"), "axes='NF'; expected only label, group, time, drop to be said"),
        ("a,y\n1,0\n,1\n", Reading(), "line 3 has '' in column a; expected no empty cell"),
        ("a,y\n1,0\nnan,1\n", Reading(), "line 3 has 'nan' in column a; expected a finite number"),
        ("a,y\n1,0\n1e99,1\n", Reading(), "line 3 has '1e99' in column a; expected a finite number"),
        ("a,y\n1,0\n2\n", Reading(), "line 3 has 1 cells; expected 2: a, y"),
        ("a,y\n1,-1\n2,0\n", Reading(), "line 2 has '-1' in column y; expected labels from 0, or names"),
        ("a,y\n1,9999\n2,0\n", Reading(), "line 2 has '9999' in column y; expected labels below 1000, or names"),
        ("a,a\n1,2\n", Reading(), "column 2 'a' twice; expected a heading of different names"),
        ("a,\n1,2\n", Reading(), "column 2 '' without a name"),
        ("a,y\n", Reading(), "1 lines; expected a heading, and a row for each example"),
        ("y\n1\n", Reading(), "no column but y, the label"),
        ("a,y,t\n1,0,noon\n", Reading(time="t"), "line 2 has 'noon' in column t; expected numbers, or ISO dates"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, reading: Reading, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_table(table(tmp_path, text), reading)
    assert message in str(error.value)
    assert "walks.csv" in str(error.value)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "walks.csv"
    path.write_bytes("a,y\nñ,0\n".encode("latin-1"))
    with pytest.raises(DataError, match="expected a table as UTF-8 text"):
        read_table(path)
