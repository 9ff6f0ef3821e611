"""The build: which texts are a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgefl
from edgefl.system.build_id import build, commit_in


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("3e7ad57212\n", "3e7ad57212"),
        ("3e7ad57212.dirty\n", "3e7ad57212.dirty"),
        ("3e7ad57", "3e7ad57"),
        ("\n", ""),
        ("", ""),
        ("main", ""),
        ("3e7ad5", ""),
        ("3e7ad57212 \x1b[2J", ""),
        ("3e7ad57212.dirty.dirty", ""),
    ],
)
def test_what_is_no_commit_is_not_named(text: str, commit: str, tmp_path: Path) -> None:
    (tmp_path / "build.txt").write_text(text)
    assert commit_in(tmp_path / "build.txt") == commit


def test_a_checkout_that_was_never_built_has_no_commit(tmp_path: Path) -> None:
    assert commit_in(tmp_path / "build.txt") == ""
    (tmp_path / "build.txt").write_bytes(b"\xff\xfe")
    assert commit_in(tmp_path / "build.txt") == ""


def test_the_build_begins_with_the_version() -> None:
    assert build().partition("+")[0] == edgefl.__version__
