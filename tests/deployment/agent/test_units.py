"""The systemd units of docs/systemd: systemd-analyze finds nothing to say about them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).resolve().parents[3] / "docs" / "systemd").glob("*.service"))
PROGRAM = "/opt/edgefl/bin/edgefl"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no program systemd-analyze, which checks units")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    assert [unit.name for unit in UNITS] == ["edgefl-agent.service", "edgefl-server@.service"]
    for unit in UNITS:
        text = unit.read_text()
        assert PROGRAM in text
        assert verified(tmp_path / unit.name.replace("@", "@first"), text) == "", unit.name
    assert "Unknown" in verified(tmp_path / "wrong.service", text.replace("RestartSec", "RestartAfter"))


def verified(file: Path, text: str) -> str:
    """Return what systemd-analyze says of this unit. The program that the unit starts must exist."""
    file.write_text(text.replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    return said if done.returncode or file.name in said else ""
