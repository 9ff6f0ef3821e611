"""Tables as office programs, pandas and sensors write them: what is taken for what, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.csv_table import read_table
from edgefl.experiment.data.missing_values import with_means

NAN = float("nan")
COLOURS = "colour,size,y\nred,1,0\nblue,2,1\nred,3,0\nblue,4,1\n"

TAKEN = [  # text, reading, columns, features, part of a note
    (
        "an index",
        ",a,y\n0,5,0\n1,6,1\n",
        Reading(),
        ["a"],
        [[5], [6]],
        "the first column, which has no name, is an index",
    ),
    ("a shuffled index", ",a,y\n7,5,0\n3,6,1\n", Reading(), ["a"], [[5], [6]], "is an index and not an input"),
    (
        "an index read again",
        "Unnamed: 0,a,y\n0,5,0\n1,6,1\n",
        Reading(),
        ["a"],
        [[5], [6]],
        "is an index and not an input",
    ),
    (
        "decimal commas",
        "a;y\n0,84;0\n-1;1\n",
        Reading(),
        ["a"],
        [[0.84], [-1]],
        "the commas in the numbers of a are decimal",
    ),
    ("decimal commas, tabs", "a\ty\n1,5e3\t0\n2,5\t1\n", Reading(), ["a"], [[1500], [2.5]], "are decimal commas"),
    ("True and False", "a,y\nTrue,0\nFalse,1\n", Reading(), ["a"], [[1], [0]], "in column a, True is 1 and False is 0"),
    ("TRUE and FALSE", "a,y\nTRUE,0\nFALSE,1\n", Reading(), ["a"], [[1], [0]], "True is 1"),
    (
        "texts",
        COLOURS,
        Reading(),
        ["colour=blue", "colour=red", "size"],
        [[0, 1, 1], [1, 0, 2], [0, 1, 3], [1, 0, 4]],
        "column colour has texts: 2 columns of 0 and 1 (colour=blue, colour=red)",
    ),
    (
        "dropped",
        "a,b,y\n1,2,0\n,3,1\n4,NA,0\n5,6,1\n",
        Reading(missing="drop"),
        ["a", "b"],
        [[1, 2], [5, 6]],
        "2 of 4 samples",
    ),
    (
        "no label, dropped",
        "a,y\n1,0\n2,\n3,1\n",
        Reading(missing="drop"),
        ["a"],
        [[1], [3]],
        "1 of 3 samples lack a value",
    ),
    (
        "no person, dropped",
        "a,y,group\n1,0,x\n2,1,\n",
        Reading(missing="drop"),
        ["a"],
        [[1]],
        "1 of 2 samples lack a value",
    ),
]


@pytest.mark.parametrize(
    ("text", "reading", "columns", "x", "note"), [each[1:] for each in TAKEN], ids=[e[0] for e in TAKEN]
)
def test_a_table_is_taken_and_what_was_done_is_said(
    tmp_path: Path, text: str, reading: Reading, columns: list[str], x: list[list[float]], note: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    found = read_table(path, reading)
    assert list(found.columns or ()) == columns
    assert found.x.tolist() == np.array(x, np.float32).tolist()
    assert len(found.notes) == 1
    assert note in found.notes[0]


@pytest.mark.parametrize("cell", ["", "NA", "N/A", "n/a", "nan", "NaN", "null", "None", "<NA>", "?"])
def test_every_word_for_a_missing_value_gets_the_mean(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,y\n1,5,0\n{cell},6,1\n3,7,1\n9,8,0\n")
    found = read_table(path, Reading(missing="mean"))
    assert found.notes == ("1 values of the inputs are missing; the mean of the training samples takes their place",)
    assert with_means(found, [np.array([0, 2], np.int32)]).x.tolist() == [[1, 5], [2, 6], [3, 7], [9, 8]]
    with pytest.raises(DataError) as error:
        read_table(path)
    expected = "no empty cell" if not cell else "a finite number"
    assert f"line 3 has {cell!r} in column a; expected {expected}, or --missing mean or --missing drop" in str(
        error.value
    )


def test_a_missing_text_gets_the_shares_of_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("colour,y\nred,0\nblue,1\nred,0\nblue,1\nred,1\nred,0\n,1\n")
    found = read_table(path, Reading(missing="mean"))
    assert with_means(found, [np.arange(6, dtype=np.int32)]).x[6].tolist() == np.array([1 / 3, 2 / 3], "f4").tolist()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_the_byte_order_mark_says_the_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    path.write_bytes(f"{mark}größe,y\n1,0\n2,1\n".encode(encoding))
    found = read_table(path)
    assert (found.columns, found.x.tolist(), found.notes) == (("größe",), [[1], [2]], ())


REFUSED = [
    (
        "latin-1",
        "größe,y\n1,0\n".encode("latin-1"),
        Reading(),
        "expected a table as UTF-8 text: iconv -f LATIN1 -t UTF-8 t.csv",
    ),
    (
        "UTF-16 without a mark",
        "a,y\n1,0\n".encode("utf-16-le"),
        Reading(),
        "expected a table as UTF-8 text: iconv -f LATIN1",
    ),
    ("a column without a name", b",a,y\nx,5,0\nz,6,1\n", Reading(), "column 1 '' without a name"),
    ("an index with a repetition", b",a,y\n1,5,0\n1,6,1\n", Reading(), "column 1 '' without a name"),
    ("points and commas", b"a;y\n1.5;0\n1,5;1\n", Reading(), "line 3 has '1,5' in column a; expected a finite number"),
    ("thousands", b"a;y\n1.000,5;0\n2;1\n", Reading(), "line 2 has '1.000,5' in column a; expected a finite number"),
    (
        "a typing error",
        b"a,y\n1,0\n2,1\n12x,1\n",
        Reading(),
        "line 4 has '12x' in column a; expected a finite number, or the",
    ),
    (
        "names",
        b"a,y\nann,0\nben,1\ncleo,1\n",
        Reading(),
        "line 2 has 'ann' in column a; expected a finite number, or at most 1",
    ),
    (
        "dates",
        b"a,y\n2026-01-01,0\n2026-01-01,1\n",
        Reading(),
        "line 2 has '2026-01-01' in column a; expected a finite number",
    ),
    ("truth and number", b"a,y\nTrue,0\n2,1\n", Reading(), "line 2 has 'True' in column a; expected a finite number"),
    (
        "no label",
        b"a,y\n1,0\n2,\n",
        Reading(missing="mean"),
        "line 3 has '' in column y; expected no empty cell, or --missing drop",
    ),
    (
        "nothing left",
        b"a,y\n,0\n2,\n",
        Reading(missing="drop"),
        "every line lacks at least one value; expected --missing mean",
    ),
    ("no heading", b"1,2\n3,4\n5,6\n", Reading(), "the first line has only numbers; expected a heading, which names"),
]


@pytest.mark.parametrize(
    ("content", "reading", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_what_may_be_two_things_is_refused(tmp_path: Path, content: bytes, reading: Reading, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_table(path, reading)
    assert message in str(error.value)
