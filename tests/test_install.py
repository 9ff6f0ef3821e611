"""The README's install command on a machine without a compiler, as printed, in a fresh virtual environment.

With a compiler an install takes minutes. .ci/run tries it with the README's other line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
SHIPPED = ("edgefl", "server", "csrc", "scripts", "pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    _, tests = LINES
    (pattern,) = re.findall(r"grep -m1 '([^']+)' README.md", (ROOT / ".ci" / "run").read_text("utf-8"))
    assert [line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if pattern in line] == [tests]


def test_the_main_command_installs_and_runs_without_a_compiler(tmp_path: Path) -> None:
    main, _ = LINES
    for name in SHIPPED:
        source, ignored = ROOT / name, shutil.ignore_patterns("*.so", "__pycache__", "kernels.*")
        shutil.copytree(source, tmp_path / name, ignore=ignored) if source.is_dir() else shutil.copy(source, tmp_path)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"CC": "/bin/false", "CXX": "/bin/false", "EDGEFL_CUDA_IMAGES": "", "PIP_NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", main], cwd=tmp_path, env=environment, capture_output=True, text=True)
    if "Could not find a version" in done.stderr or "Connection" in done.stderr:
        pytest.skip(f"no package index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"^ *fedspu .* %", done.stdout, re.MULTILINE), done.stdout
    assert not list((tmp_path / ".venv").rglob("libedgefl.so"))
