"""The types of the package, by mypy: a long test beside the others, so that both cores have work to the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_types_fit() -> None:
    found = subprocess.run([ROOT / "scripts/typecheck.sh"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
