"""docs/api.md is what scripts/api.py makes of the docstrings as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import edgefl
from edgefl.methods import FILES

ROOT = Path(__file__).resolve().parent.parent
SCRIPT, PAGE = ROOT / "scripts" / "api.py", ROOT / "docs" / "api.md"


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], check=False)
    assert done.returncode == 0, "docs/api.md is older than the docstrings; expected: python scripts/api.py"


def test_it_has_what_import_edgefl_gives_and_every_method() -> None:
    titles = [line.removeprefix("### ") for line in PAGE.read_text().splitlines() if line.startswith("### ")]
    assert {f"edgefl.{name}" for name in edgefl.EXPORTS} <= set(titles)
    assert {f"edgefl.methods.{file}.{name}" for name, file in FILES.items()} <= set(titles)
    assert len(titles) == len(set(titles))
