"""Flower beside us: seconds per round of a SuperLink and a SuperNode per client, real processes on loopback.

Flower needs a virtual environment of its own, as it pins what we do not need:

    python -m venv flower && flower/bin/pip install flwr
    python -m bench rounds --flower flower/bin/python

Its app is bench/flower_app. The run begins when every node has registered.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.processes import Process, processes, wait_until

APP = Path(__file__).with_name("flower_app")
ROUND_S = 60.0
START_S = 180.0  # sixteen Python processes
HOW = "python -m venv flower && flower/bin/pip install flwr, then --flower flower/bin/python"


def version(python: Path) -> str:
    """Of the Flower that this Python has. Raises RuntimeError if it has none."""
    command = [str(python), "-c", "import importlib.metadata as m; print(m.version('flwr'))"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"{python} has no Flower ({error}); expected {HOW}") from None


def rounds_s(python: Path, clients: int, rounds: int, parameters: int) -> list[float]:
    """Seconds of every round but the first, in which its processes are still starting, and the last, whose end is not
    seen."""
    tools = python.absolute().parent
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as start:
        path, times = Path(folder), Path(folder) / "times"
        shutil.copytree(APP, path / "app")
        link, *nodes = _ports(1 + clients)
        (path / "home").mkdir()
        (path / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "bench"\n\n[superlink.bench]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
        )
        home = ["env", f"FLWR_HOME={path / 'home'}", f"PATH={tools}:/usr/bin:/bin", "FLWR_TELEMETRY_ENABLED=0"]
        options = ["--insecure", "--disable-runtime-dependency-installation", "--port", str(link)]
        alive = [start("superlink", [*home, "flower-superlink", *options])]
        _listening(link, alive)
        for node in nodes:
            options = ["--insecure", "--superlink", f"127.0.0.1:{link}", "--port", str(node)]
            alive.append(start(f"supernode-{node}", [*home, "flower-supernode", *options]))
        wait_until(lambda: alive[0].words().count("Activated node_id") == clients, alive, START_S)
        config = f'rounds={rounds} clients={clients} parameters={parameters} times="{times}"'
        alive.append(start("flwr-run", [*home, "flwr", "run", "app", "bench", "--run-config", config]))
        wait_until(lambda: len(_lines(times)) >= rounds, alive, ROUND_S * (rounds + 2))
        starts = [float(line) for line in _lines(times)]
    return [after - before for before, after in pairwise(starts[1:])]


def _ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _listening(port: int, alive: list[Process]) -> None:
    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(answers, alive, START_S)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
