"""`pytest bench --benchmark-only` as it is printed, on one row; `pytest` alone collects none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pytest_says(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False).stdout


def test_a_row_is_timed() -> None:
    said = pytest_says("bench", "--benchmark-only", "--benchmark-max-time=0.01", "-k", "codec and copy")
    assert "1 passed" in said
    assert "benchmark 'codec, a million values': 1 tests" in said


def test_pytest_alone_collects_no_row() -> None:
    """What it looks through beside tests/ is nothing."""
    assert "no tests collected" in pytest_says("--collect-only", f"--ignore={ROOT / 'tests'}")
