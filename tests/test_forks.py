"""What run_script returns and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forks import run_script


@pytest.mark.parametrize(
    ("script", "status", "printed"),
    [
        ("print(2 + 3)", 0, "5\n"),
        ("import os\nos.kill(os.getpid(), 9)", -9, ""),
        ("raise SystemExit(3)", 3, ""),
    ],
)
def test_a_script_ends_by_itself_and_its_words_are_in_the_file(
    script: str, status: int, printed: str, tmp_path: Path
) -> None:
    assert run_script(script, tmp_path / "printed") == status
    assert (tmp_path / "printed").read_text() == printed


def test_an_error_is_in_the_file(tmp_path: Path) -> None:
    assert run_script("1 / 0", tmp_path / "printed") == 1
    assert "ZeroDivisionError" in (tmp_path / "printed").read_text()
