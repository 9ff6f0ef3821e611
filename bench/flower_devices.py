"""python -m bench flower-devices --flower PYTHON: devices without flwr or torch at Flower's own SuperLink.

PYTHON has flwr 1.41 (the extra `flower`); it runs the SuperLink, with TLS and registered node keys, and the ServerApp
of edgefl/integrations/flower.py. The devices are `edgefl client --flower` in this interpreter, in which importing torch
or flwr fails. Some are killed by SIGKILL at drawn moments and started again. The parameters have to be those of a
simulation, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench import figures, machine
from bench.figures import Figure
from bench.processes import ROOT, Process, Start, processes, python, wait_until
from edgefl.experiment.assemble import assemble
from edgefl.experiment.settings import Experiment
from edgefl.experiment.shares import share_file, write_share
from edgefl.server import history
from edgefl.simulation.journal import Journal
from edgefl.simulation.loop import simulate
from edgefl.trust.certificates import make_certificates, tls_key_file
from edgefl.trust.keys import write_private

MB = 1e6
MOST_MB = 60
START_S, ROUND_S = 60.0, 60.0
ALONE = "import sys; sys.modules['torch'] = sys.modules['flwr'] = None; from edgefl.commands.cli import main; "
ALONE += "code = main(sys.argv[1:]); print('imported:', *sorted({n.split('.')[0] for n in sys.modules} & set(%r))); "
ALONE += "sys.exit(code)"
HEAVY = ("google", "grpc", "httpx", "requests", "cryptography", "onnx", "rich", "scipy", "matplotlib")  # named if there
PROJECT = """
[project]
name = "fleet"
version = "1.0.0"
license = "Apache-2.0"
description = "edgefl's server"
dependencies = ["flwr>=1.41"]
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.flwr.app]
publisher = "edgefl"
[tool.flwr.app.components]
serverapp = "fleet.app:app"
clientapp = "fleet.app:client"
[tool.flwr.app.config]
path = ""
"""
APP = """
import json
from pathlib import Path
from flwr.clientapp import ClientApp
from edgefl.experiment.settings import Experiment
from edgefl.integrations.flower import server_app

def path(context):
    return Path(context.run_config["path"])

client = ClientApp()
app = server_app(
    lambda context: Experiment.from_json(json.loads((path(context) / "experiment.json").read_text())),
    lambda context: path(context) / "run",
)
"""


def experiment(devices: int, rounds: int, method: str) -> Experiment:
    """The digits that come with the package."""
    return Experiment(
        (method,), clients=devices, per_round=devices, rounds=rounds, eval_every=rounds, epochs=1, keep=(0.4, 1.0)
    )


class Federation:
    """A SuperLink, what it knows, and devices."""

    def __init__(self, path: Path, flower: Path, start: Start, what: Experiment) -> None:
        self.path, self._flower, self._start, self.what = path, flower.absolute(), start, what
        self.port = _free_port()
        self.run = path / "run"
        self._environment = [
            "env", f"PATH={self._flower.parent}:/usr/bin:/bin", f"FLWR_HOME={path / 'home'}", f"PYTHONPATH={ROOT}",
            "FLWR_TELEMETRY_ENABLED=0",
        ]  # fmt: skip

    def begin(self) -> Process:
        """Starts the SuperLink, and makes certificates, keys, shares and the app."""
        make_certificates(self.path / "tls", ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
        tls = self.path / "tls"
        command = [self._tool("flower-superlink"), "--port", str(self.port), "--enable-supernode-auth"]
        command += ["--disable-runtime-dependency-installation", "--ssl-ca-certfile", str(tls / "ca.pem")]
        command += ["--ssl-certfile", str(tls / "server.pem"), "--ssl-keyfile", str(tls_key_file(tls / "server"))]
        link = self._start("superlink", [*self._environment, *command])
        self._write_app()
        federation = assemble(self.what)
        (self.path / "shares").mkdir()
        for client in range(self.what.clients):
            write_share(share_file(self.path / "shares", client), federation, client)
        wait_until(lambda: "Uvicorn running" in link.words(), [link], START_S)
        for client in range(self.what.clients):
            self._register(client)
        return link

    def submit(self) -> None:
        """Asks for the ServerApp's run."""
        self._flwr("run", str(self.path / "app"), "bench", "--run-config", f'path="{self.path}"')

    def device(self, client: int, life: int) -> Process:
        """Starts a device, again after it was killed."""
        command = [
            "client",
            "--flower",
            f"https://127.0.0.1:{self.port}",
            "--tls-ca",
            str(self.path / "tls" / "ca.pem"),
        ]
        command += ["--state", str(self.path / f"device-{client}"), "--node-key", str(self._key(client))]
        command += ["--data", str(share_file(self.path / "shares", client)), "--id", str(client), "--give-up", "120"]
        return self._start(f"device-{client}-{life}", python("-c", ALONE % (HEAVY,), *command))

    def closed(self) -> int:
        """Rounds that are closed."""
        return len(history.metrics(self.run)) if history.is_served(self.run) else 0

    def _key(self, client: int) -> Path:
        return self.path / "keys" / f"node-{client}"

    def _register(self, client: int) -> None:
        key = ec.generate_private_key(ec.SECP384R1())
        self._key(client).parent.mkdir(exist_ok=True)
        form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        write_private(self._key(client), key.private_bytes(serialization.Encoding.PEM, *form))
        public = self._key(client).with_suffix(".pub")
        openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        public.write_bytes(key.public_key().public_bytes(*openssh))
        self._flwr("supernode", "register", str(public), "bench")

    def _write_app(self) -> None:
        for name, text in {
            "app/pyproject.toml": PROJECT,
            "app/fleet/__init__.py": "",
            "app/fleet/app.py": APP,
            "experiment.json": json.dumps(self.what.to_json()),
            "home/config.toml": f'[superlink.bench]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.path / "tls" / "ca.pem"}"\n',
        }.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def _tool(self, name: str) -> str:
        return str(self._flower.parent / name)

    def _flwr(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._environment, self._tool("flwr"), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"flwr {arguments[0]}: {done.stdout[-500:]} {done.stderr[-500:]}")


class Crowd:
    """The devices of a federation: started, killed, started again, and measured."""

    def __init__(self, federation: Federation, devices: int) -> None:
        self._federation, self._lives = federation, [0] * devices
        self.running = [federation.device(client, 0) for client in range(devices)]
        self.peaks = [0] * devices  # bytes

    def look(self) -> None:
        """Notes the memory of those that run."""
        for client, device in enumerate(self.running):
            if device.handle.poll() is None:
                self.peaks[client] = max(self.peaks[client], device.memory("VmHWM"))

    def kill(self, client: int) -> None:
        """SIGKILL, and another process on the same directory."""
        self.look()
        self.running[client].handle.send_signal(signal.SIGKILL)
        self.running[client].handle.wait()
        self._lives[client] += 1
        self.running[client] = self._federation.device(client, self._lives[client])

    @property
    def are_over(self) -> bool:
        """Whether all of them have ended by themselves."""
        return all(device.handle.poll() is not None for device in self.running)


def measure(flower: Path, what: Experiment, kills: int, seed: int, folder: Path | None = None) -> Iterator[Figure]:
    """Runs the federation, and gives what it took. `folder`: keeps everything, logs too; None: nothing is kept."""
    devices, rounds = what.clients, what.rounds
    with _served(flower, what, folder) as federation:
        crowd = Crowd(federation, devices)
        _wait(crowd, lambda: all("connected as node" in each.words() for each in crowd.running), START_S)
        federation.submit()
        _wait(crowd, lambda: federation.closed() >= 1, START_S + ROUND_S)
        begun, first = time.monotonic(), federation.closed()
        killed = _killed(federation, crowd, kills, random.Random(seed))
        _wait(crowd, lambda: federation.closed() >= rounds, rounds * ROUND_S)
        took = (time.monotonic() - begun) / max(1, rounds - first)
        _wait(crowd, lambda: crowd.are_over, START_S)
        codes = [device.handle.returncode for device in crowd.running]
        imported = {line for each in crowd.running for line in each.words().splitlines() if "imported:" in line}
        differ = _differences(federation.run, federation.path / "simulated", what)
    about = f"{devices} devices, {rounds} rounds of {what.methods[0]}, TLS and node keys"
    yield Figure("resident memory of a device, at most", max(crowd.peaks) / MB, "MB", MOST_MB, f"VmHWM; {about}")
    yield Figure("the same, of the smallest", min(crowd.peaks) / MB, "MB")
    yield Figure("a round", took, "s", None, "with the kills" if kills else "")
    yield Figure("kills by SIGKILL", float(killed), "", None, "each started again at once")
    yield Figure("devices that did not end with 0", float(sum(code != 0 for code in codes)), "", 0)
    yield Figure("arrays that differ from the simulation", float(differ), "", 0, "; ".join(sorted(imported)))


@contextmanager
def _served(flower: Path, what: Experiment, folder: Path | None) -> Iterator[Federation]:
    with TemporaryDirectory() as temporary:
        path = (folder or Path(temporary)).absolute()
        (path / "logs").mkdir(parents=True)
        with processes(path / "logs") as start:
            federation = Federation(path, flower, start, what)
            federation.begin()
            yield federation


def _killed(federation: Federation, crowd: Crowd, kills: int, chance: random.Random) -> int:
    """Kills drawn devices at drawn moments of drawn rounds, as long as there are rounds; how many."""
    rounds, done = federation.what.rounds, 0
    for at in sorted(chance.uniform(1, rounds - 1) for _ in range(kills)):
        _wait(crowd, lambda at=at: federation.closed() >= int(at), rounds * ROUND_S)  # type: ignore[misc]
        moment = time.monotonic() + chance.uniform(0, 1.5)
        _wait(crowd, lambda moment=moment: time.monotonic() >= moment, START_S)  # type: ignore[misc]
        if federation.closed() < rounds:
            crowd.kill(chance.randrange(len(crowd.running)))
            done += 1
    return done


def _wait(crowd: Crowd, happened: Callable[[], bool], within_s: float) -> None:
    def looked() -> bool:
        crowd.look()
        return happened()

    wait_until(looked, crowd.running, within_s)


def _differences(run: Path, path: Path, what: Experiment) -> int:
    """How many arrays of the server's state are not the simulation's, bit for bit."""
    ((_, method),) = what.algorithms().items()
    journal = Journal(path)
    state = simulate(method, assemble(what), what.settings(1), journal)
    journal.close()
    found = history.final_state(run)
    assert found.arrays.keys() == state.arrays.keys()
    pairs = [
        (found.arrays[kind].get(name), value) for kind in state.arrays for name, value in state.arrays[kind].items()
    ]
    return sum(one is None or not np.array_equal(one, other) for one, other in pairs)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench flower-devices", description=__doc__)
    parser.add_argument("--flower", type=Path, required=True, metavar="PYTHON", help="an interpreter with flwr 1.41")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--method", default="fedspu")
    parser.add_argument("--seed", type=int, default=1, help="of whom is killed when")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new directory, for everything and its logs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    show = figures.print_json if options.json else figures.print_table
    what = experiment(options.devices, options.rounds, options.method)
    found = measure(options.flower, what, options.kills, options.seed, options.keep)
    show(machine.facts(), found)
    return 0
