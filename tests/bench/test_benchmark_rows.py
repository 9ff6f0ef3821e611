"""The rows that `pytest bench --benchmark-only` prints, on one row. `pytest` alone does not collect them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_is_timed() -> None:
    options = ["--benchmark-only", "--benchmark-max-time=0.01", "-k", "codec and copy", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "bench", "-q", *options]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, timeout=240, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "benchmark 'codec, a million values': 1 tests" in done.stdout


def test_pytest_alone_looks_into_tests_only(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("testpaths") == ["tests"]
