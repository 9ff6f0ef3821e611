"""A log that cannot be written ends nobody: real processes whose standard error is full, closed or a broken pipe."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from edgefl.cli.log_writer import say
from edgefl.server.endpoint import read_endpoint
from edgefl.system.log_lines import Alert

WAYS = ("full", "broken pipe", "closed")
LIMIT_S = 120.0


def spoilt(stack: ExitStack, way: str) -> IO[bytes]:
    """Open what takes the place of stdout and stderr."""
    if way == "full":
        return stack.enter_context(open("/dev/full", "wb", buffering=0))
    reader, writer = os.pipe()
    os.close(reader)
    return stack.enter_context(open(writer, "wb", buffering=0))


def start(stack: ExitStack, way: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "edgefl", *arguments]
    environment = {**os.environ, "EDGEFL_NUM_THREADS": "1"}
    if way == "closed":
        command = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
        process = stack.enter_context(subprocess.Popen(command, env=environment))
    else:
        log = spoilt(stack, way)
        process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
    stack.callback(process.kill)
    return process


def wait_for_address(path: Path, server: subprocess.Popen[bytes]) -> str:
    """HOST:PORT once the server listens."""
    until = time.monotonic() + LIMIT_S
    while (address := read_endpoint(path)) is None:
        assert server.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    return address


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    rng = np.random.default_rng(1)
    path = tmp_path / "data.npz"
    np.savez(path, x=rng.normal(size=(40, 6)).astype(np.float32), y=(np.arange(40) % 2).astype(np.int32))
    yield path


@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_a_server_a_client_and_an_agent_goes_to_its_end(way: str, data: Path, tmp_path: Path) -> None:
    settings = tmp_path / "agent.json"
    run = tmp_path / "run"
    asked = "--method", "fedavg", "--data", str(data), "--clients", "2", "--per-round", "2", "--rounds", "2"
    with ExitStack() as stack:
        server = start(stack, way, "serve", *asked, "--run-dir", str(run), "--port", "0")
        address = wait_for_address(run, server)
        entry = {"address": address, "id": 1}
        settings.write_text(json.dumps({"state": "agent", "data": str(data), "servers": [entry]}))
        agent = start(stack, way, "agent", str(settings), "--runs", "1")
        here = "--server", address, "--id", "0", "--data", str(data), "--state", str(tmp_path / "client")
        client = start(stack, way, "client", *here)
        assert [each.wait(LIMIT_S) for each in (server, client, agent)] == [0, 0, 0]
    kept = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    assert not any(b" INFO " in content for content in kept)


@pytest.mark.parametrize("way", WAYS)
def test_progress_that_cannot_be_written_ends_no_simulation(way: str, data: Path, tmp_path: Path) -> None:
    asked = (
        "--data",
        str(data),
        "--clients",
        "2",
        "--per-round",
        "2",
        "--rounds",
        "2",
        "--run-dir",
        str(tmp_path / "run"),
    )
    command = [sys.executable, "-m", "edgefl", "simulate", "--method", "fedavg", *asked]
    with ExitStack() as stack:
        if way == "closed":
            command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=LIMIT_S)
        else:
            log = spoilt(stack, way)
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False, timeout=LIMIT_S)
    assert (done.returncode, b"fedavg" in done.stdout) == (0, True)


@pytest.mark.parametrize("way", ["full", "broken pipe"])
def test_results_that_cannot_be_written_are_one_sentence(way: str) -> None:
    with ExitStack() as stack:
        command = [sys.executable, "-m", "edgefl", "doctor"]
        out = spoilt(stack, way)
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S)
    why = "No space left on device" if way == "full" else "Broken pipe"
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"edgefl doctor: standard output or a file cannot be written ({why})"]


def test_a_line_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python does not gather what is written where PYTHONUNBUFFERED is set, and processes may share the stream."""
    written: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stream)
    say("listening")
    assert len(written) == 1 and written[0].endswith(" INFO listening\n")


def test_a_line_of_a_log_has_a_time_a_level_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    say("listening on 127.0.0.1:8765")
    say(Alert("refused \x1b[2J\nforged"))
    plain, alert = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d INFO listening on 127\.0\.0\.1:8765", plain)
    assert alert[20:] == r"WARNING refused \x1b[2J\nforged"
