"""Eight devices' rounds beside thousands of TLS connections that never say who they are, and without them.

The server is `edgefl serve` with keys and TLS, in a process that may open FILES files. All devices and strangers
connect from one address. The last device joins when the strangers are there, so that round 1 begins under attack. The
part runs on loopback only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from bench.cluster import ENVIRONMENT, Cluster, await_, write_partitions
from edgefl.experiment.settings import Experiment
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.protocol.trust.keys import key_file, make_keys
from edgefl.server import run_history
from tests.faults.experiments import EIGHT
from tests.faults.outcome import Truth

FILES = 256
MEMORY_MB, LOG_KB = 150, 100  # upper limits of the server's memory and log
SLOWER = 2  # times the round time of an undisturbed run
NICE = 5  # niceness of the attackers, who stand for other machines
LONGEST_S = 240.0  # longest time of an attack

EXPERIMENT = EIGHT


@dataclass(frozen=True)
class Figure:
    """A number, and its upper limit."""

    what: str
    value: float
    bar: float | None = None

    @property
    def is_missed(self) -> bool:
        return self.bar is not None and self.value > self.bar


@dataclass(frozen=True)
class Run:
    """A run: the median seconds of a round, the seconds until the last device is connected, the largest resident MB."""

    round_s: float
    join_s: float
    memory_mb: float
    log_kb: float
    difference: str | None
    attack: dict[str, int]


def run(root: Path, strangers: int, experiment: Experiment = EXPERIMENT) -> Iterator[Figure]:
    """Yield what the attack changes. A run that ends otherwise than its simulation is a figure of 1."""
    truth = prepare(root, experiment)
    calm = served(root, 0, experiment, truth)
    crowded = served(root, strangers, experiment, truth)
    yield Figure("undisturbed: seconds a round, median", calm.round_s)
    yield Figure("undisturbed: seconds until the last device is connected", calm.join_s)
    yield Figure("undisturbed: server, MB resident at most", calm.memory_mb)
    yield Figure(f"{strangers} strangers: connections they made", crowded.attack.get("connected", 0))
    yield Figure(f"{strangers} strangers: of these, TLS handshakes that were done", crowded.attack.get("secured", 0))
    yield Figure(f"{strangers} strangers: seconds a round, median", crowded.round_s, SLOWER * calm.round_s)
    yield Figure(f"{strangers} strangers: seconds until the last device is connected", crowded.join_s)
    yield Figure(f"{strangers} strangers: server, MB resident at most", crowded.memory_mb, MEMORY_MB)
    yield Figure(f"{strangers} strangers: server's log, kB", crowded.log_kb, LOG_KB)
    yield Figure("runs that differ from their simulation", sum(bool(each.difference) for each in (calm, crowded)), 0)


def prepare(root: Path, experiment: Experiment) -> Truth:
    """Write samples, keys and certificates under `root`, and return how the simulation ends."""
    root.mkdir(parents=True, exist_ok=True)
    write_partitions(root / "shares", experiment)
    make_keys(root / "keys", experiment.clients)
    make_certificates(root / "keys", ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
    return Truth.of(experiment, root / "simulated")


def served(root: Path, strangers: int, experiment: Experiment, truth: Truth) -> Run:
    """Carry out one run beside so many strangers. Its files lie in a directory that has their number as its name."""
    keys, last = root / "keys", experiment.clients - 1
    tls = "--tls-cert", str(keys / "server.pem"), "--tls-key", str(keys / "server-tls.key")
    program = "-m", "tests.faults.limited", str(FILES)

    def options(client: int) -> tuple[str, ...]:
        return "--key", str(key_file(keys, client)), "--tls-ca", str(keys / "ca.pem")

    serve = "--keys", str(keys / "server.keys"), *tls
    with Cluster(root / str(strangers), experiment, root / "shares", serve, options, program) as cluster:
        cluster.start_server()
        for client in range(last):
            cluster.start_device(client)
        await_(lambda: all(map(_is_connected, cluster.devices.values())), "all devices but the last are connected")
        with _strangers(cluster.port, strangers) as attack:
            began = time.monotonic()
            cluster.start_device(last)
            await_(lambda: _is_connected(cluster.devices[last]), "the last device is connected")
            join_s, peak_mb = time.monotonic() - began, 0.0

            def are_closed() -> bool:
                nonlocal peak_mb
                peak_mb = max(peak_mb, cluster.server.peak_mb())
                return len(run_history.metrics(cluster.run)) == experiment.rounds

            await_(are_closed, "the last round is closed")
        cluster.finish()
        lengths = [log_record["seconds"] for log_record in run_history.metrics(cluster.run)]
        log_kb = cluster.server.log.stat().st_size / 1e3
        return Run(median(lengths), join_s, peak_mb, log_kb, truth.difference(cluster), attack)


def _is_connected(device: object) -> bool:
    return "connected as client" in device.said()  # type: ignore[attr-defined]


@contextmanager
def _strangers(port: int, count: int) -> Iterator[dict[str, int]]:
    """Keep so many strangers for the length of the with block. Afterwards the dictionary says what they did."""
    found: dict[str, int] = {}
    if not count:
        yield found
        return
    command = [sys.executable, "-m", "tests.faults.strangers", str(port), str(count), str(LONGEST_S)]
    everything = {**os.environ, **ENVIRONMENT}
    attack = subprocess.Popen(command, stdout=subprocess.PIPE, env=everything, preexec_fn=lambda: os.nice(NICE))
    try:
        assert attack.stdout is not None
        attack.stdout.readline()  # the server has as many strangers as it takes
        yield found
    finally:
        attack.send_signal(signal.SIGTERM)
        said, _ = attack.communicate()
        found.update(json.loads(said))
