"""A short real federation under the recorder: `edgefl serve` and two `edgefl client`, each with a disk of its own.

The record ends with the run. A replay of the whole record must make the files that lie on the disk, so that a change
which the recorder has not seen is an error and not a gap.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.crash_points.disk import Disk
from bench.crash_points.record import Event, Kind, Recorder, read_record
from bench.faults.cluster import Cluster, write_partitions
from bench.faults.experiments import short_rounds
from bench.faults.outcome import Truth
from bench.faults.rest import NO_STATE, contents
from edgefl.cli.cli import main as edgefl
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import key_file

EXPERIMENT = short_rounds("fedspu-es", clients=2, per_round=2, rounds=3, eval_every=2)
WAYS = ("plain", "keys")
SERVER = "run"  # the folder of the server's machine. A device's machine has DEVICES/N
DEVICES = "devices"


def device_folder(client: int) -> str:
    return f"{DEVICES}/{client}"


MACHINES = (SERVER, *map(device_folder, range(EXPERIMENT.clients)))


@dataclass(frozen=True)
class Recording:
    """The record of one run. `base` are the files before it began, and `machines` has the folder by process."""

    way: str
    events: list[Event]
    base: Path
    machines: dict[int, str]

    def without_syncs(self, name: str) -> Recording:
        """Return the record of processes that do not sync files or directories of this name: an omitted fsync."""
        kept = [event for event in self.events if not (event.kind is Kind.SYNC and Path(event.name).match(name))]
        return Recording(self.way, kept, self.base, self.machines)

    def disks(self) -> dict[str, Disk]:
        """Return the disk of each machine before the run."""
        return {machine: Disk.of(self.base) for machine in MACHINES}


class Federation:
    """The experiment, its simulated end, the devices' samples and keys, for any number of runs under `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.truth = Truth.of(EXPERIMENT, directory / "simulated")
        self._recorder = Recorder(directory)
        write_partitions(directory / "shares", EXPERIMENT)

    def cluster(self, root: Path, way: str) -> Cluster:
        """Return the processes of a run whose files lie under `root`, or will lie there."""
        serve, client = self._trust(way)
        return Cluster(root, EXPERIMENT, self.directory / "shares", serve, client)

    def record(self, way: str) -> Recording:
        """Carry out a run without a crash. Raises RuntimeError if it differs from its simulation or from its record."""
        root, base, log = (self.directory / f"{way}-{what}" for what in ("recorded", "base", "log"))
        cluster = self.cluster(root, way)
        cluster.devices_at.mkdir()
        shutil.copytree(root, base, ignore=shutil.ignore_patterns("logs"))
        environment = self._recorder.environment(root, log)
        with cluster:
            cluster.start_server(environment)
            machines = {cluster.server.pid: SERVER}
            for client in range(EXPERIMENT.clients):
                cluster.start_device(client, environment)
                machines[cluster.devices[client].pid] = device_folder(client)
            cluster.finish()
        events = [event for event in read_record(log) if not event.name.startswith("logs/")]
        recording = Recording(way, events, base, machines)
        _check(recording, root)
        if found := self.truth.difference(cluster):
            raise RuntimeError(f"differs without any crash: {found}")
        return recording

    def _trust(self, way: str) -> tuple[Sequence[str], Callable[[int], Sequence[str]]]:
        keys = self.directory / "keys"
        if way == "plain":
            return (), lambda client: ()
        if not keys.exists() and edgefl(["keys", str(keys), "--clients", str(EXPERIMENT.clients)]):
            raise RequestError("no keys could be made")
        return ("--keys", str(keys / "server.keys")), lambda client: ("--key", str(key_file(keys, client)))


def _check(recording: Recording, root: Path) -> None:
    """Raise RuntimeError unless a replay of the whole record makes the files of the run."""
    disks = recording.disks()
    for event in recording.events:
        disks[recording.machines[event.process]].apply(event)
    for machine, disk in disks.items():
        files = disk.left("all", random.Random(0), machine)
        found = {name: content for name, content in files.items() if content is not None}
        expected = {f"{machine}/{name}": content for name, content in contents(root / machine).items()}
        for name in sorted({*found, *expected}):
            if Path(name).name not in NO_STATE and found.get(name) != expected.get(name):
                raise RuntimeError(f"{name} differs from the replay of the record; expected that every change is seen")
