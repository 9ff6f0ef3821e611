"""The facts that an installation has about itself: its version, its licence, and that it is typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools.command.egg_info import FileList

import edgefl
from edgefl.cli import cli
from edgefl.system.build_id import build
from scripts import package_page

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = (".ci", ".github", "csrc", "docs", "scripts", "tests", "bench")
PICTURES = {"docs/first-run.png", "docs/first-run-dark.png"}  # README's; a package index shows the repository's
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"edgefl {build()}\n")


def test_the_version_is_the_same_everywhere() -> None:
    assert re.findall(r'^version = "(.*)"$', PROJECT, re.MULTILINE) == [edgefl.__version__]
    assert re.findall(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == edgefl.__version__
    assert f"\nversion: {edgefl.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_policies_name_the_version_and_the_repository() -> None:
    (repository,) = re.findall(r'^Source = "(.*)"$', PROJECT, re.MULTILINE)
    minor = edgefl.__version__.rpartition(".")[0]
    assert f"repository-code: {repository}\n" in (ROOT / "CITATION.cff").read_text()
    policy = (ROOT / "SECURITY.md").read_text()
    assert f"{repository}/security/advisories/new" in policy
    assert f"| {minor} | yes |" in policy


def test_it_is_marked_as_typed() -> None:
    assert (Path(edgefl.__file__).parent / "py.typed").is_file()
    assert '"py.typed"' in PROJECT


def test_readme_and_licence_are_in_the_metadata() -> None:
    assert 'license = "Apache-2.0"' in PROJECT
    assert 'dynamic = ["readme"]' in PROJECT
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()


def test_links_and_pictures_of_the_description_lead_to_the_repository() -> None:
    text = '[a](docs/a.md#b) [c](https://d.e) [f](#g) <img src="h.png"> <source srcset="https://i.j/k.png">'
    assert package_page.with_addresses(text, "https://github.com/o/p", "v1.2.3") == (
        "[a](https://github.com/o/p/blob/v1.2.3/docs/a.md#b) [c](https://d.e) [f](#g) "
        '<img src="https://raw.githubusercontent.com/o/p/v1.2.3/h.png"> <source srcset="https://i.j/k.png">'
    )
    made = package_page.description()
    assert not re.search(r'\]\((?!https://)|src(set)?="(?!https://)', made)
    assert f"/edgefl/v{edgefl.__version__}/docs/first-run.png" in made


def test_importing_it_loads_neither_torch_nor_kernels() -> None:
    loaded = "import sys, edgefl; print([name for name in sys.modules if name.startswith(('torch', 'edgefl.'))])"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "['edgefl._finder']\n"


def test_every_package_is_listed_for_installs() -> None:
    listed = re.search(r"^packages = \[(.*?)^\]", PROJECT, re.MULTILINE | re.DOTALL)
    assert listed
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "edgefl").rglob("*.py")}
    beside = {".".join(("edgefl", *path.parent.relative_to(ROOT).parts)) for path in (ROOT / "server").rglob("*.py")}
    assert sorted(re.findall(r'"([\w.]+)"', listed[1])) == sorted(there | beside)


def test_an_sdist_has_what_is_compiled_tested_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    there = {str(path.relative_to(ROOT)) for folder in SHIPPED for path in (ROOT / folder).rglob("*") if is_ours(path)}
    assert {
        "csrc/edgefl.h",
        "csrc/isa/neon_linear.cc",
        "scripts/wheels.sh",
        "tests/test_package.py",
        ".ci/run",
    } <= there
    listed = FileList()
    listed.allfiles = sorted(there)
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        if line.split()[0] in ("recursive-include", "exclude", "prune"):
            listed.process_template_line(line)
    left_out = there - set(listed.files)
    assert {path for path in left_out if not path.startswith("bench/papers/results/")} <= PICTURES


def test_a_build_refuses_a_folder_without_images(tmp_path: Path) -> None:
    stub = "import sys; from types import SimpleNamespace as Module; sys.modules['pybind11'] = Module(get_include=str)"
    command = [sys.executable, "-c", f"{stub}; exec(open('setup.py').read())", "build_ext", f"--build-lib={tmp_path}"]
    environment = os.environ | {"EDGEFL_CUDA_IMAGES": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"EDGEFL_CUDA_IMAGES={tmp_path} has no kernels.*" in done.stderr
    assert not list(tmp_path.iterdir())


def is_ours(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".o")
