"""python -m bench flower-devices --flower PYTHON: devices without flwr or torch at Flower's own SuperLink.

PYTHON has flwr 1.41 (the extra `flower`). It runs the SuperLink, with TLS and registered node keys, and the ServerApp
of edgefl/integrations/flower.py. The devices are `edgefl client --flower` in this interpreter, in which importing torch
or flwr fails. Some are killed by SIGKILL at drawn moments and started again. The parameters must equal a
simulation's, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import deployment, machine
from bench.figures import Figure, print_json, print_table
from bench.processes import Process, Start, processes, python, wait_until
from bench.superlink import SuperLink, version
from edgefl.experiment.assembly import assemble, check_begin
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.settings import Experiment
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.server import run_history

MB = 1e6
MOST_MB = 60
START_S, ROUND_S = 60.0, 60.0
HEAVY = ("google", "grpc", "httpx", "requests", "cryptography", "onnx", "scipy", "matplotlib")  # named if loaded
ALONE = f"""
import sys
sys.modules["torch"] = sys.modules["flwr"] = None
from edgefl.cli.cli import main
code = main(sys.argv[1:])
print("imported:", *sorted({{name.split(".")[0] for name in sys.modules}} & set({HEAVY})))
sys.exit(code)
"""


def experiment(devices: int, rounds: int, method: str, model: str = "") -> Experiment:
    """Return an experiment on the digits that come with the package. The `model` "" is their default model."""
    everybody = dict.fromkeys(("clients", "per_round"), devices)
    return Experiment((method,), model=model, rounds=rounds, eval_every=rounds, epochs=1, keep=(0.4, 1.0), **everybody)


@dataclass
class Federation:
    """A SuperLink with a registered key for each device of an experiment."""

    path: Path
    what: Experiment
    start: Start
    link: SuperLink
    keys: list[Path]

    @staticmethod
    def begin(path: Path, flower: Path, start: Start, what: Experiment) -> Federation:
        """Start the SuperLink, with certificates and the samples of all devices in `path`."""
        (path / "trust").mkdir()
        make_certificates(path / "trust", ["127.0.0.1", "localhost"], 0, datetime.now(timezone.utc), 2)
        federation = assemble(what)
        check_begin(what.algorithms(), federation, what.rounds)
        for client in range(what.clients):
            write_partition(partition_file(path, client), federation, client)
        link = SuperLink(flower, start, path, path / "trust")
        return Federation(path, what, start, link, [link.register(client) for client in range(what.clients)])

    @property
    def run(self) -> Path:
        """The directory of the ServerApp."""
        return self.path / "run"

    def submit(self) -> None:
        """Submit the run of the ServerApp."""
        file = self.path / "experiment.json"
        file.write_text(json.dumps(self.what.to_json()))
        self.link.run(deployment.APP, "app", f'experiment="{file}" run-dir="{self.run}"')

    def device(self, client: int, life: int) -> Process:
        """Start a device, or start it again after it was killed."""
        command = ["client", "--flower", f"https://127.0.0.1:{self.link.port}", "--node-key", str(self.keys[client])]
        command += ["--tls-ca", str(self.path / "trust" / "ca.pem"), "--state", str(self.path / f"device-{client}")]
        command += ["--data", str(partition_file(self.path, client)), "--id", str(client), "--give-up", "120"]
        return self.start(f"device-{client}-{life}", python("-c", ALONE, *command))

    def closed(self) -> int:
        """Return the number of closed rounds."""
        return len(run_history.metrics(self.run)) if run_history.is_served(self.run) else 0


class Crowd:
    """The devices of a federation: started, killed, started again, and measured."""

    def __init__(self, federation: Federation, devices: int) -> None:
        self._federation, self._lives = federation, [0] * devices
        self.running = [federation.device(client, 0) for client in range(devices)]
        self.peaks = [0] * devices  # largest resident memory by device, in bytes

    def look(self) -> None:
        """Note the memory of the devices that run."""
        for client, device in enumerate(self.running):
            if device.handle.poll() is None:
                self.peaks[client] = max(self.peaks[client], device.memory("VmHWM"))

    def kill(self, client: int) -> None:
        """Kill a device by SIGKILL, and start another process on its directory."""
        self.look()
        self.running[client].handle.send_signal(signal.SIGKILL)
        self.running[client].handle.wait()
        self._lives[client] += 1
        self.running[client] = self._federation.device(client, self._lives[client])

    @property
    def are_over(self) -> bool:
        """Return whether all devices have ended by themselves."""
        return all(device.handle.poll() is not None for device in self.running)


def measure(flower: Path, what: Experiment, kills: int, seed: int, folder: Path | None = None) -> Iterator[Figure]:
    """Run the federation, and yield what it took. `folder` keeps everything, logs too. With None, nothing is kept."""
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
        same = deployment.is_simulated(federation.run, what, federation.path / "simulated")
    about = f"{devices} devices, {rounds} rounds of {what.methods[0]}, TLS and node keys"
    yield Figure("resident memory of a device, at most", max(crowd.peaks) / MB, "MB", MOST_MB, f"VmHWM; {about}")
    yield Figure("the same, of the smallest", min(crowd.peaks) / MB, "MB")
    yield Figure("a round", took, "s", None, "with the kills" if kills else "")
    yield Figure("kills by SIGKILL", float(killed), "", None, "each started again at once")
    yield Figure("devices that did not end with 0", float(sum(code != 0 for code in codes)), "", 0)
    note = f"{'; '.join(sorted(imported))} none of {', '.join(HEAVY)}" if imported == {"imported:"} else str(imported)
    yield Figure("runs that differ from the simulation", float(not same), "", 0, note)


@contextmanager
def _served(flower: Path, what: Experiment, folder: Path | None) -> Iterator[Federation]:
    with TemporaryDirectory() as temporary:
        path = (folder or Path(temporary)).absolute()
        (path / "logs").mkdir(parents=True)
        with processes(path / "logs") as start:
            yield Federation.begin(path, flower, start, what)


def _killed(federation: Federation, crowd: Crowd, kills: int, random_stream: random.Random) -> int:
    """Kill drawn devices at drawn moments of drawn rounds, as long as there are rounds. Return the number of kills."""
    rounds, done = federation.what.rounds, 0
    for at in sorted(random_stream.uniform(1, rounds - 1) for _ in range(kills)):
        _wait(crowd, lambda at=at: federation.closed() >= int(at), rounds * ROUND_S)  # type: ignore[misc]
        moment = time.monotonic() + random_stream.uniform(0, 1.5)
        _wait(crowd, lambda moment=moment: time.monotonic() >= moment, START_S)  # type: ignore[misc]
        if federation.closed() < rounds:
            crowd.kill(random_stream.randrange(len(crowd.running)))
            done += 1
    return done


def _wait(crowd: Crowd, happened: Callable[[], bool], within_s: float) -> None:
    def looked() -> bool:
        crowd.look()
        return happened()

    wait_until(looked, crowd.running, within_s)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench flower-devices", description=__doc__)
    parser.add_argument(
        "--flower", type=Path, required=True, metavar="PYTHON", help="an interpreter with flwr 1.41 or 1.42"
    )
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--method", default="fedspu")
    parser.add_argument("--model", default="", help="default: that of the digits")
    parser.add_argument("--seed", type=int, default=1, help="of whom is killed when")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new directory, for everything and its logs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    facts, show = machine.facts(), print_json if options.json else print_table
    facts["flwr"] = version(options.flower)
    what = experiment(options.devices, options.rounds, options.method, options.model)
    found = measure(options.flower, what, options.kills, options.seed, options.keep)
    show(facts, found)
    return 0
