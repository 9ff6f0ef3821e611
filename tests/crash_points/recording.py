"""A short real federation under the recorder: `edgefl serve` and two `edgefl client`, each with a disk of its own.

The record ends with the run. A replay of the whole record must make the files that lie on the disk, so that a change
which the recorder has not seen is an error and not a gap.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cluster import Cluster, Process, await_, write_partitions
from edgefl.cli.cli import main as edgefl
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import key_file
from tests.crash_points.disk import Disk
from tests.crash_points.record import Event, Kind, Recorder, read_record
from tests.faults.experiments import short_rounds
from tests.faults.outcome import Truth
from tests.faults.rest import NO_STATE, contents

EXPERIMENT = short_rounds("fedspu-es", clients=2, per_round=2, rounds=3, eval_every=2)
WAYS = ("plain", "keys", "killed")  # killed: one process gets SIGKILL before one of its syncs, and is started again
SERVER = "run"  # the folder of the server's machine. A device's machine has DEVICES/N
DEVICES = "devices"
KILLED_S = 30.0  # within which a process comes to its deadly sync


def device_folder(client: int) -> str:
    return f"{DEVICES}/{client}"


MACHINES = (SERVER, *map(device_folder, range(EXPERIMENT.clients)))


@dataclass(frozen=True)
class Recording:
    """The record of one run. `base` are the files before it began, and `machines` has the folder by process.

    first  number of the first event after which a loss of power is of interest
    """

    way: str
    events: list[Event]
    base: Path
    machines: dict[int, str]
    first: int = 0

    def without_syncs(self, name: str) -> Recording:
        """Return the record of processes that do not sync files or directories of this name: an omitted fsync."""
        kept = [event for event in self.events if not (event.kind is Kind.SYNC and Path(event.name).match(name))]
        return replace(self, events=kept)

    def syncs(self, machine: str) -> int:
        """Return the number of syncs of a machine's processes."""
        return sum(each.kind is Kind.SYNC and self.machines[each.process] == machine for each in self.events)

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

    def cluster(self, root: Path, way: str, process: type[Process] = Process) -> Cluster:
        """Return the processes of a run whose files lie under `root`, or will lie there."""
        serve, client = self._trust(way)
        return Cluster(root, EXPERIMENT, self.directory / "shares", serve, client, process=process)

    def record(self, way: str, struck: str = "", killed_before: int = 0) -> Recording:
        """Carry out a run without a loss of power.

        struck  machine whose process gets SIGKILL before its sync of the number `killed_before`. "": no machine
        Raises  RuntimeError if the run differs from its simulation or from its record.
        """
        place = Path(tempfile.mkdtemp(dir=self.directory))
        root, base, log = place / "recorded", place / "base", place / "log"
        cluster = self.cluster(root, way)
        cluster.devices_at.mkdir()
        shutil.copytree(root, base, ignore=shutil.ignore_patterns("logs"))
        whole, deadly = self._recorder.environment(root, log), self._recorder.environment(root, log, killed_before)
        with cluster:
            machines = _started(cluster, whole, {struck: deadly})
            if struck:
                machines |= _started_again(cluster, struck, whole)
            cluster.finish()
        events = [event for event in read_record(log) if not event.name.startswith("logs/")]
        recording = Recording(way, events, base, machines, _last_life(events, machines, struck))
        _check(recording, root)
        if found := self.truth.difference(cluster):
            raise RuntimeError(f"differs without a loss of power: {found}")
        shutil.rmtree(root)
        return recording

    def _trust(self, way: str) -> tuple[Sequence[str], Callable[[int], Sequence[str]]]:
        keys = self.directory / "keys"
        if way != "keys":
            return (), lambda client: ()
        if not keys.exists() and edgefl(["keys", str(keys), "--clients", str(EXPERIMENT.clients)]):
            raise RequestError("no keys could be made")
        return ("--keys", str(keys / "server.keys")), lambda client: ("--key", str(key_file(keys, client)))


def _started(cluster: Cluster, whole: Mapping[str, str], struck: Mapping[str, Mapping[str, str]]) -> dict[int, str]:
    """Start all processes, and return their machines. A server that is killed before it listens is started again."""
    machines = {}
    if not cluster.start_server(struck.get(SERVER, whole)):
        machines[cluster.server.pid] = SERVER
        cluster.start_server(whole)
    machines[cluster.server.pid] = SERVER
    for client in range(EXPERIMENT.clients):
        cluster.start_device(client, struck.get(device_folder(client), whole))
        machines[cluster.devices[client].pid] = device_folder(client)
    return machines


def _started_again(cluster: Cluster, struck: str, whole: Mapping[str, str]) -> dict[int, str]:
    """Start the process that was killed again, and return its machine."""
    process = cluster.server if struck == SERVER else cluster.devices[int(struck.removeprefix(f"{DEVICES}/"))]
    if process.lives == 1:
        await_(lambda: process.ended() is not None, f"{process.name} is killed", KILLED_S)
        if process.ended() != -signal.SIGKILL:
            raise RuntimeError(f"{process.name} ended with exit code {process.ended()}; expected SIGKILL")
        process.start(whole)
    return {process.pid: struck}


def _last_life(events: list[Event], machines: Mapping[int, str], struck: str) -> int:
    """Return the number of the first event of a machine's last process, 0 if no machine was struck."""
    processes = list(dict.fromkeys(each.process for each in events if machines[each.process] == struck))
    return next((at for at, each in enumerate(events) if struck and each.process == processes[-1]), 0)


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
