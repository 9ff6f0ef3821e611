"""The container files fit the package: the image gets what a build reads, and what it runs is there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from edgefl.cli import status
from tests.test_editable import NEEDED

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "container"
COMPOSE = (FOLDER / "compose.yml").read_text("utf-8")


def test_the_image_is_given_what_a_build_reads() -> None:
    lines = (FOLDER / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    assert lines[0] == "*"
    assert set(NEEDED) <= {line[1:] for line in lines if line.startswith("!")}


@pytest.mark.parametrize("name", ["begin_or_resume", "setup"])
def test_programs_of_the_image_are_copied_and_can_be_run(name: str) -> None:
    assert f" docs/container/{name} " in (FOLDER / "Containerfile").read_text("utf-8")
    assert re.search(rf"(- |\[){name}\b", COMPOSE)
    assert os.access(FOLDER / name, os.X_OK)


@pytest.mark.parametrize(
    ("is_there", "called"), [(False, "serve --run-dir RUN --rounds 3"), (True, "serve --resume RUN")]
)
def test_a_server_begins_its_run_once_and_then_goes_on(tmp_path: Path, is_there: bool, called: str) -> None:
    edgefl, run = tmp_path / "edgefl", tmp_path / "run"
    edgefl.write_text('#!/bin/sh\necho "$@"\n')
    edgefl.chmod(0o755)
    run.mkdir()
    if is_there:
        (run / "run.db").touch()
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUN": str(run), "EXPERIMENT": "--rounds 3"}
    command = [FOLDER / "begin_or_resume", "--port=7227"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*called.replace("RUN", str(run)).split(), "--port=7227"]


@pytest.mark.parametrize(
    ("done", "listening", "is_healthy"), [(False, "0.0.0.0:7227", True), (True, None, True), (False, None, False)]
)
def test_a_server_is_healthy_while_it_listens_and_after_its_run(
    done: bool, listening: str | None, is_healthy: bool
) -> None:
    (words,) = re.findall(r"grep -Eq '(.*)'", COMPOSE)
    shown = status.describe(FOUND | {"done": done, "listening": listening})
    assert bool(re.search(words, shown, re.MULTILINE)) == is_healthy


FOUND = {
    "run": "run",
    "method": "fedspu",
    "clients": 2,
    "enrolled": 0,
    "rounds": 1,
    "closed": 0,
    "outcomes": {},
    "payload_bytes": 0,
    "socket_bytes": 0,
    "frozen_bytes": 0,
    "measured_joules": None,
    "excluded": 0,
    "clipped": 0,
    "limited_values": 0,
    "open": None,
    "losses": [],
    "refusals": [],
    "removed": [],
    "last_evaluation": None,
}  # of a run whose server has not begun a round
