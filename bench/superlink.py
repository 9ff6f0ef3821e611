"""A Flower federation as processes on loopback: a SuperLink, its SuperNodes, and runs of an app. It measures nothing.

Flower needs a virtual environment of its own, as it pins packages that we do not need. Its Python names the
environment.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import Process, Start, wait_until

START_S = 180.0  # sixteen Python processes start meanwhile
RETURN_S = 240.0  # until the SuperLink lets in a node whose process was killed
HOW = "python -m venv flower && flower/bin/pip install flwr, then --flower flower/bin/python"


def version(python: Path) -> str:
    """Return the version of the Flower that this Python has. Raises RuntimeError if it has no Flower."""
    command = [str(python), "-c", "import importlib.metadata as m; print(m.version('flwr'))"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"{python} has no Flower ({error}); expected {HOW}") from None


@dataclass
class SuperLink:
    """A SuperLink and its nodes.

    python  of Flower's environment
    start   starts a process (processes.py)
    path    for what it writes
    trust   a directory with ca.pem, server.pem and server-tls.key: TLS, and a key for each node. None: neither
    """

    python: Path
    start: Start
    path: Path
    trust: Path | None = None
    alive: list[Process] = field(default_factory=list)
    nodes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.port,) = ports(1)
        home = self.path / "home"
        home.mkdir()
        trusts = "insecure = true" if self.trust is None else f'root-certificates = "{self.trust / "ca.pem"}"'
        connection = f'[superlink.bench]\naddress = "127.0.0.1:{self.port}"\n{trusts}\n'
        (home / "config.toml").write_text(f'[superlink]\ndefault = "bench"\n\n{connection}')
        tools = self.python.absolute().parent
        self._home = ["env", f"FLWR_HOME={home}", f"PATH={tools}:/usr/bin:/bin", "FLWR_TELEMETRY_ENABLED=0"]
        options = ["--disable-runtime-dependency-installation", "--port", str(self.port), *self._server_trust()]
        self.link = self._start("superlink", "flower-superlink", *options)
        wait_until(lambda: _answers(self.port), self.alive, START_S)

    def add_nodes(self, configs: Sequence[str]) -> None:
        """Start a SuperNode for each config, and wait until all are registered."""
        for number in range(len(configs)):
            if self.trust is not None:
                self.register(number)
        self.nodes = [self.start_node(number, config) for number, config in enumerate(configs)]
        wait_until(lambda: self.activations() >= len(configs), self.alive, START_S)

    def start_node(self, number: int, config: str, life: int = 0) -> Process:
        """Start a SuperNode's process. `life` tells it from its former processes."""
        (port,) = ports(1)
        options = ["--superlink", f"127.0.0.1:{self.port}", "--port", str(port), "--node-config", config]
        if self.trust is None:
            options.append("--insecure")
        else:
            options += ["--root-certificates", str(self.trust / "ca.pem")]
            options += ["--auth-supernode-private-key", str(self.path / f"node-{number}")]
        return self._start(f"supernode-{number}-{life}", "flower-supernode", *options)

    def activations(self) -> int:
        """Return how often a node was let in."""
        return self.link.words().count("Activated node_id")

    def run(self, app: Path, name: str, config: str) -> Process:
        """Start `flwr run`, which ends when the run is submitted."""
        folder = self.path / name
        shutil.copytree(app, folder)
        return self._start(name, "flwr", "run", str(folder), "bench", "--run-config", config)

    def let_in_again(self, number: int, config: str) -> Process:
        """Start a SuperNode after a killed one, again and again until the SuperLink takes it."""
        before = self.activations()
        self.alive.remove(self.nodes[number])
        life = 0
        node: Process | None = None

        def is_in() -> bool:
            nonlocal life, node
            if node is None or node.handle.poll() is not None:
                if node is not None:
                    self.alive.remove(node)
                life += 1
                node = self.start_node(number, config, life)
            return self.activations() > before

        wait_until(is_in, [self.link], RETURN_S)
        assert node is not None
        self.nodes[number] = node
        return node

    def _start(self, name: str, *command: str) -> Process:
        process = self.start(name, [*self._home, *command])
        self.alive.append(process)
        return process

    def _server_trust(self) -> list[str]:
        if self.trust is None:
            return ["--insecure"]
        files = {"ca-certfile": "ca.pem", "certfile": "server.pem", "keyfile": "server-tls.key"}
        given = [option for name, file in files.items() for option in (f"--ssl-{name}", str(self.trust / file))]
        return [*given, "--enable-supernode-auth"]

    def register(self, number: int) -> Path:
        """Make a key that the SuperLink knows, and return the file of its private half, in OpenSSH's form."""
        key = self.path / f"node-{number}"
        making = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(key)]
        subprocess.run(making, check=True, stdin=subprocess.DEVNULL)
        registering = [*self._home, "flwr", "supernode", "register", f"{key}.pub", "bench"]
        subprocess.run(registering, check=True, capture_output=True, timeout=START_S)
        return key


def end(pid: int) -> None:
    """Send SIGKILL. A process that has ended is not an error."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
