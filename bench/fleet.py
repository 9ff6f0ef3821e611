"""A served run of the benches as processes on loopback: its server, and a device per client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import work
from bench.processes import Process, Start, processes, python, wait_until
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.settings import Experiment
from edgefl.server.endpoint import read_endpoint

START_S = 60.0
ROUND_S = 30.0


@dataclass(frozen=True)
class Fleet:
    """A server that listens, and what is needed to start its devices."""

    path: Path
    server: Process
    address: str
    start: Start

    def device(self, client: int, address: str | None = None) -> Process:
        """Start `edgefl client`. `address` replaces the server's own address."""
        return self.start(f"device-{client}", self.command("edgefl", "client", client=client, address=address))

    def timed_device(self, client: int) -> Process:
        """Start `edgefl client` with a stopwatch."""
        spans = str(self.spans(client))
        return self.start(f"device-{client}", self.command("bench.device", spans, client=client))

    def command(self, *module: str, client: int, address: str | None = None) -> list[str]:
        """Return the command that starts a client's device."""
        options = ["--server", address or self.address, "--id", str(client), "--state", str(self.path / f"d{client}")]
        return python("-m", *module, *options, "--data", str(partition_file(self.path / "shares", client)))

    def spans(self, client: int) -> Path:
        """Return the file into which a timed device writes its spans."""
        return self.path / f"device-{client}-spans.json"


@contextmanager
def fleet(
    path: Path, name: str, clients: int, rounds: int, keep: tuple[float, ...] = Experiment.keep
) -> Iterator[Fleet]:
    """Partition the named work of bench/work.py among `clients` devices, and start its server."""
    experiment = work.experiment(clients, rounds, keep)
    federation = work.WORKS[name](experiment)
    (path / "shares").mkdir(parents=True)
    for client in range(clients):
        write_partition(partition_file(path / "shares", client), federation, client)
    request = {"path": str(path), "work": name, "clients": clients, "rounds": rounds, "keep": keep}
    with processes(path) as start:
        server = start("server", python("-m", "bench.hosted", json.dumps(request)))
        wait_until(lambda: read_endpoint(path) is not None, [server], START_S)
        address = read_endpoint(path)
        assert address is not None
        yield Fleet(path, server, address, start)


def wait_for_end(fleet: Fleet, devices: list[Process], rounds: int) -> None:
    """Wait until the run is over and all processes have ended."""
    everybody = [fleet.server, *devices]
    wait_until(lambda: all(each.handle.poll() is not None for each in everybody), everybody, ROUND_S * (rounds + 2))
    for each in everybody:
        each.check()
