"""Ctrl-C while modules are imported is one line and exit code 130, however the command line was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERRUPT = """import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background is started without it
os.kill(os.getpid(), signal.SIGINT)
"""
SCRIPT = "import sys; from edgefl.__main__ import main; sys.exit(main())"  # what the installed program does


@pytest.mark.parametrize("module", ["msgspec", "numpy", "argparse"])
@pytest.mark.parametrize("start", [("-m", "edgefl"), ("-c", SCRIPT)], ids=["module", "program"])
@pytest.mark.parametrize("command", ["serve", "simulate", "client"])
def test_ctrl_c_during_an_import_is_one_line(command: str, start: tuple[str, ...], module: str, tmp_path: Path) -> None:
    """A module of that name interrupts the process that imports it, as a user would in that moment."""
    (tmp_path / f"{module}.py").write_text(INTERRUPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    words = [sys.executable, *start, command, "--port", "0"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith("interrupted\n")


def test_the_installed_program_is_what_is_tested() -> None:
    assert 'edgefl = "edgefl.__main__:main"' in (ROOT / "pyproject.toml").read_text()
