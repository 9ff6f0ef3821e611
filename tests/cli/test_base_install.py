"""The packages that `pip install edgefl` installs are enough for every command, and for a run of server and device."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from edgefl.cli.cli import main
from edgefl.cli.commands import COMMANDS
from tests.server.processes import until
from tests.test_imports import PACKAGES

REQUIRED = {"numpy", "safetensors", "msgspec", "rich"}  # dependencies of pyproject.toml. The others are extras
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({sorted(PACKAGES.keys() - REQUIRED)})); "
EDGEFL = BLOCKED + "from edgefl.cli.cli import main; sys.exit(main())"


def test_the_required_packages_are_those_of_the_project() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    dependencies = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    assert set(re.findall(r'^    "([a-z]+)>=', dependencies, re.MULTILINE)) == REQUIRED


def test_each_command_is_imported_without_an_optional_package() -> None:
    every = BLOCKED + "".join(f"import edgefl.cli.{command}; " for command in COMMANDS)
    done = subprocess.run([sys.executable, "-c", every], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_server_and_a_device_need_no_optional_package(tmp_path: Path) -> None:
    options = ["--clients", "1", "--rounds", "1", "--partition", "iid"]
    assert main(["partition", *options[:2], *options[4:], "--out", str(tmp_path / "shares")]) == 0
    with ExitStack() as stack:

        def start(*words: object) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", EDGEFL, *map(str, words)]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            return process

        server = start("serve", *options, "--port", 0, "--run-dir", tmp_path / "run")
        assert server.stderr is not None
        address = until(iter(server.stderr.readline, ""), "listening on").split()[-1]
        data = tmp_path / "shares" / "device-0000.npz"
        device = start("client", "--server", address, "--id", 0, "--state", tmp_path / "state", "--data", data)
        for process in (device, server):
            assert process.wait(60) == 0, process.communicate()[1]
