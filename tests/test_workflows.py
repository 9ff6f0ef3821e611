"""The workflows of .github call programs of this repository that can be run by hand, and have few rights."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)|\./\.github/workflows/[\w-]+\.yml")


def values(path: Path, key: str) -> list[str]:
    """Return the values of a key at any depth of a workflow, whose values take one line each."""
    return re.findall(rf"^[ -]*{key}: (.+?)(?: #.*)?$", path.read_text("utf-8"), re.MULTILINE)


def test_there_are_workflows_for_tests_pages_wheels_releases_and_nights() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "nightly", "release", "tests", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_only_programs_of_the_repository(path: Path) -> None:
    for command in values(path, "run"):
        program = command.split()[0]
        assert program.startswith((".ci/", "scripts/")), f"{command}: expected a program of .ci/ or scripts/"
        assert os.access(ROOT / program, os.X_OK), f"{program} cannot be run"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_only_reads_and_pins_what_it_uses(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "\npermissions:\n  contents: read\n" in text
    assert "\nconcurrency:\n" in text
    assert [used for used in values(path, "uses") if not PINNED.fullmatch(used)] == []
    assert text.count("uses: actions/checkout@") == text.count("persist-credentials: false")


def test_every_promised_python_is_tested() -> None:
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    (tested,) = re.findall(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))
    assert re.findall(r'"([\d.]+)"', tested) == promised
