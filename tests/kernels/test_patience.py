"""A caller whose worker is put aside works alone: for long beside another process, until it sleeps beside a spinning
thread of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("patience.cc")
CSRC = SOURCE.parents[2] / "csrc"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_a_spinning_neighbour_is_told_from_a_working_one(tmp_path: Path) -> None:
    program = tmp_path / "patience"
    subprocess.run([str(COMPILER), "-std=c++17", "-I", str(CSRC), str(SOURCE), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
