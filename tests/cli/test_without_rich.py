"""A machine without rich: a device's commands run, and every other command that needs rich says so in a sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployment.device.conftest import federation, partitions, server  # noqa: F401  fixtures
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer

BLOCKED = "import sys; sys.modules['rich'] = None; from edgefl.cli.cli import main; sys.exit(main())"


def without_rich(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("command", ["simulate", "demo", "serve", "status", "inspect", "memory"])
def test_a_command_that_needs_rich_says_so(command: str) -> None:
    done = without_rich(command, "--help")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"edgefl {command}: the package rich is missing")
    assert "pip install 'rich>=13'" in line


@pytest.mark.parametrize(
    "command", ["client", "agent", "partition", "keys", "convert", "export", "predict", "bench", "doctor"]
)
def test_the_other_commands_do_without(command: str) -> None:
    done = without_rich(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_device_takes_part(server: ScriptedServer, partitions: Path, tmp_path: Path) -> None:  # noqa: F811
    with Listener(server) as listener:
        where = ["--server", listener.address, "--state", tmp_path / "state"]
        done = without_rich("client", *where, "--data", partitions / "device-0000.npz")
    assert done.returncode == 0, done.stderr
    assert list(server.replies) == [1, 2]


def test_an_agent_takes_part_and_its_status_says_what_is_missing(
    server: ScriptedServer,  # noqa: F811
    partitions: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    settings, data = tmp_path / "agent.json", partitions / "device-0000.npz"
    with Listener(server) as listener:
        state = tmp_path / "state"
        servers = f'[{{"address": "{listener.address}", "data": "{data}"}}]'
        settings.write_text(f'{{"state": "{state}", "settle_s": 0.01, "servers": {servers}}}')
        done = without_rich("agent", settings, "--runs", 1)
    assert done.returncode == 0, done.stderr
    assert list(server.replies) == [1, 2]
    done = without_rich("agent", settings, "--status")
    assert done.returncode == 2
    assert "the package rich is missing" in done.stderr
