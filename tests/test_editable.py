"""An editable install leads to the checkout by a path, so that type checkers know edgefl.server and edgefl.simulate."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from edgefl import __version__

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("edgefl", "server", "csrc", "scripts", "pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")
PROGRAM = """
import edgefl
from edgefl.server.coordinator import Coordinator
from edgefl.server.run_history import metrics

run = edgefl.simulate("fedspu", rounds=1)
reveal_type(run)
reveal_type(metrics)

def task_of(coordinator: Coordinator) -> None:
    reveal_type(coordinator.task)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to which an editable install without a compiler leads."""
    pytest.importorskip("pybind11", reason="setup.py needs pybind11")
    copy = tmp_path_factory.mktemp("checkout")
    for name in NEEDED:
        source, ignored = ROOT / name, shutil.ignore_patterns("*.so", "__pycache__", "kernels.*", "*.pyi")  # stubs
        shutil.copytree(source, copy / name, ignore=ignored) if source.is_dir() else shutil.copy(source, copy)
    environment = os.environ | {"CC": "/bin/false", "CXX": "/bin/false", "EDGEFL_CUDA_IMAGES": ""}
    command = [sys.executable, "setup.py", "-q", "editable_wheel", "--dist-dir", "made"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (copy / "made").glob("*.whl")
    files = zipfile.ZipFile(wheel)
    (path,) = (name for name in files.namelist() if not name.startswith(f"edgefl-{__version__}.dist-info/"))
    assert path.endswith(".pth")
    return Path(files.read(path).decode().strip())


def test_every_file_of_the_server_has_a_stub_that_shows_its_changes(installed: Path) -> None:
    sources = {path.relative_to(installed / "server") for path in (installed / "server").rglob("*.py")}
    stubs = {path.relative_to(installed / "edgefl/server") for path in (installed / "edgefl/server").rglob("*.pyi")}
    assert {path.with_suffix(".py") for path in stubs} == sources
    for stub in stubs:
        source = installed / "server" / stub.with_suffix(".py")
        assert (installed / "edgefl/server" / stub).samefile(source)


def test_python_takes_the_server_itself_and_not_its_stubs(installed: Path) -> None:
    program = "import edgefl.server.round_rules as rules; print(rules.__file__)"
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=installed.parent, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(installed / "server" / "round_rules.py"), done.stderr


def test_mypy_knows_the_types_of_an_editable_install(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is in the extra dev")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path), "program.py"]
    environment = os.environ | {"MYPYPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    revealed = re.findall(r'program.py:\d+: note: Revealed type is "(.*)"', done.stdout)
    assert revealed == [
        "edgefl.study.run.Run",
        "def (path: pathlib.Path, after: int =) -> list[dict[str, Any]]",
        "edgefl.methods.task.Task",
    ], done.stdout
