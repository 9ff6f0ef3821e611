"""CSV files: the meaning of each column, and one sentence for each file that cannot be read."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data import csv_table
from edgefl.experiment.data.catalog import load
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
        (
            WALKS,
            Reading(label="activity", axes="NF"),
            "axes='NF'; expected only label, group, time, drop, missing to be",
        ),
        ("a,y\n1,0\n,1\n", Reading(), "line 3 has '' in column a; expected no empty cell"),
        ("a,y\n1,0\nnan,1\n", Reading(), "line 3 has 'nan' in column a; expected a finite number"),
        ("a,y\n1,0\n1e99,1\n", Reading(), "line 3 has '1e99' in column a; expected a finite number"),
        ("a,y\n1,0\n2\n", Reading(), "line 3 has 1 cells; expected 2: a, y"),
        ("a,y\n1,9999\n2,0\n", Reading(), "line 2 has '9999' in column y; expected labels below 1000, or names"),
        ("a,a\n1,2\n", Reading(), "column 2 'a' twice; expected a heading of different names"),
        ("a,\n1,2\n", Reading(), "column 2 '' without a name"),
        ("a,y\n", Reading(), "1 lines; expected a heading, and a row for each example"),
        ("y\n1\n", Reading(), "no input columns besides the label y"),
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


def zipped(folder: Path, content: bytes, name: str = "walks.csv.gz") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["walks.csv.gz", "walks.TSV.GZ"])
def test_a_gzipped_table_is_the_plain_one(tmp_path: Path, name: str) -> None:
    """Its name ends in .gz. Members that follow one another are one text, as in gzip."""
    text = ("\ufeff" + WALKS).encode()
    path = zipped(tmp_path, gzip.compress(text[:30]) + gzip.compress(text[30:]), name)
    plain, found = read_table(table(tmp_path, WALKS), PERSONS), load(str(path), reading=PERSONS)
    assert (found.name, found.columns, found.class_names) == ("walks", plain.columns, plain.class_names)
    assert (found.x.tolist(), found.y.tolist()) == (plain.x.tolist(), plain.y.tolist())


CHECKED = gzip.compress(WALKS.encode())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WALKS.encode(), "Not a gzipped file"),
        (CHECKED[:-9], "Compressed file ended before the end-of-stream marker was reached"),
        (CHECKED[:12] + bytes([CHECKED[12] ^ 0xFF]) + CHECKED[13:], "Error -3 while decompressing data"),
        (CHECKED[:-8] + bytes(4) + CHECKED[-4:], "CRC check failed"),
        (CHECKED + b"more", "Not a gzipped file"),
    ],
    ids=["plain text", "cut off", "a changed byte", "another checksum", "bytes behind it"],
)
def test_a_damaged_gzip_stream_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_table(zipped(tmp_path, content), PERSONS)
    found = str(error.value)
    assert found.startswith(f"{tmp_path / 'walks.csv.gz'}, decompressed: cannot be read ({message}")
    assert found.endswith("expected an undamaged file")


def test_what_is_wrong_in_a_gzipped_table_is_named_as_in_a_plain_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"walks\.csv\.gz: line 3 has '' in column a; expected no empty cell"):
        read_table(zipped(tmp_path, gzip.compress(b"a,y\n1,0\n,1\n")))
    with pytest.raises(DataError, match=r"walks\.csv\.gz: .*; expected a table as UTF-8 text"):
        read_table(zipped(tmp_path, gzip.compress("a,y\nñ,0\n".encode("latin-1"))))
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.csv.gz")


def test_a_gzipped_table_has_at_most_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are counted as they are decompressed."""
    path, size = zipped(tmp_path, CHECKED), len(WALKS.encode())
    monkeypatch.setattr(csv_table, "MOST_BYTES", size)
    assert len(read_table(path, PERSONS)) == 3
    monkeypatch.setattr(csv_table, "MOST_BYTES", size - 1)
    with pytest.raises(DataError, match=f"more than {size - 1} bytes; expected at most {size - 1} bytes"):
        read_table(path, PERSONS)


def test_a_small_file_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has 64 MiB in 64 kB. No more than a piece behind the limit is decompressed."""
    monkeypatch.setattr(csv_table, "MOST_BYTES", 1 << 20)
    path = zipped(tmp_path, gzip.compress(bytes(1 << 26)))
    tracemalloc.start()
    with pytest.raises(DataError, match="more than 1048576 bytes; expected at most 1048576 bytes"):
        read_table(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size < 1 << 17
    assert most < 1 << 23
