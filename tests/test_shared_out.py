"""--share of tests/conftest.py: shares have every test once, and what is no share is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def collected(*arguments: str) -> tuple[list[str], str]:
    """The tests that pytest finds in one file with these options, and its messages."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    done = subprocess.run(
        [*command, *arguments, "tests/test_rng.py"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    return [line for line in done.stdout.splitlines() if "::" in line], done.stderr


def test_shares_have_every_test_once() -> None:
    shares = [collected("--share", f"{at}/2")[0] for at in range(2)]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(collected()[0])


@pytest.mark.parametrize("text", ["2/2", "one"])
def test_what_is_no_share_is_refused(text: str) -> None:
    assert f"share {text!r}; expected I/N, I from 0 to N - 1" in collected(f"--share={text}")[1]
