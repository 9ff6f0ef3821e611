"""A living federation: devices and speakers that join, leave, sleep and are killed, while an operator changes the run.

Twelve devices train, with TLS and keys. 200 speakers (tests/faults/speakers.py) enrol, tell their tags, sleep, leave
and come back at random, and are never chosen. At the end the run is replayed, and every accepted reply is part of one
round.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.cluster import EDGEFL, Cluster, Process
from edgefl.server import run_history
from tests.faults import asynchronous
from tests.faults.experiments import short_rounds

DEVICES, SPEAKERS = 12, 200
ROUNDS = 1_000_000  # more than there is time for. The operator ends the run
EXPERIMENT = short_rounds("fedspu", DEVICES + SPEAKERS, per_round=6, rounds=ROUNDS, eval_every=ROUNDS)
BUFFER = 3  # replies that close an asynchronous round
CHOICES = "kind == 'device' and seen < 20", "kind == 'device' and site in [0, 1]", "kind == 'device'"
SERVE = (
    "--select",
    CHOICES[0],
    "--come-again",
    "4",
    "--deadline",
    "10",
    "--evaluation-deadline",
    "5",
    "--keep-rounds",
    str(ROUNDS),
)
COMMANDS = (
    ("pause", "resume"),
    (f"set select={CHOICES[1]}", f"set select={CHOICES[2]}"),
    ("set deadline=5", "set deadline=auto", "set deadline=10"),
    ("remove 11", "readmit 11"),
    ("set rounds=2000000", "set evaluation-deadline=3"),
)
EVERY_S, AWAY_S = 0.5, (0.5, 6.0)


@dataclass(frozen=True)
class Result:
    """The result of a run.

    faults    number of SIGKILLs, stops, departures, and commands of the operator
    outcomes  number of plans by outcome
    twice     accepted replies that no round, or more than one round, took in
    first_mb, last_mb  largest resident memory of the server's processes in the first and the last third, in MB
    """

    is_asynchronous: bool
    seed: int
    seconds: float
    rounds: int
    enrolled: int
    faults: dict[str, int]
    outcomes: dict[str, int]
    twice: int
    first_mb: float
    last_mb: float
    replay: str
    identical: bool


@dataclass
class Federation:
    """The processes of one run, and what was done to them.

    away    by client, the time at which its device goes on, and how
    peaks   (time, largest resident memory in MB) of the server's processes
    """

    cluster: Cluster
    draw: random.Random
    until: float
    away: dict[int, tuple[float, Callable[[], object]]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    peaks: list[tuple[float, float]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def step(self, kills: int) -> None:
        """Do one thing at random. There are at most so many SIGKILLs."""
        self._come_back(time.monotonic())
        killed = sum(count for kind, count in self.faults.items() if "SIGKILL" in kind)
        what, there = self.draw.random(), [k for k in range(DEVICES - 1) if k not in self.away]
        if what < 0.04 and killed < kills:
            self.look()
            self.cluster.server.kill()
            self.cluster.start_server()
            self.faults["SIGKILL of the server"] += 1
        elif what < 0.08 and there and killed < kills:
            self._end(self.draw.choice(there), signal.SIGKILL)
        elif what < 0.15 and there:
            device = self.cluster.devices[client := self.draw.choice(there)]
            device.send(signal.SIGSTOP)
            self._send_away(client, lambda: device.send(signal.SIGCONT), "SIGSTOP of a device")
        elif what < 0.22 and there:
            self._leave(self.draw.choice(there))
        elif what < 0.3:
            self._command()

    def look(self) -> None:
        """Note the largest memory of the server's process."""
        self.peaks.append((time.monotonic(), self.cluster.server.peak_mb()))

    def settle(self) -> None:
        """Bring every device back, let the run end, and wait for that."""
        while self.commands:
            self._command()
        self._come_back(float("inf"))
        self.look()
        self.tell("resume")
        self.tell("stop")
        self.cluster.finish()

    def tell(self, command: str) -> None:
        """Give the server a command of the operator, and wait for the answer."""
        words = command.split(" ", 1)
        program = [sys.executable, *EDGEFL, "control", str(self.cluster.run), *words, "--timeout", "60"]
        subprocess.run(program, check=True, capture_output=True)
        self.faults["command"] += 1

    def _command(self) -> None:
        """Give the next command of a group of commands. Device 11 is started again when it may come again."""
        if not self.commands:
            self.commands = list(self.draw.choice(COMMANDS))
        command = self.commands.pop(0)
        self.tell(command)
        if command.startswith("readmit"):
            self.cluster.devices[11].wait()
            self.cluster.devices[11].start()

    def _leave(self, client: int) -> None:
        """End a device, tell the server that it has left, and start it again after a while."""
        self._end(client, signal.SIGTERM)
        options = [word for word in self.cluster.devices[client].arguments if word not in ("--sleep",)]
        log = self.cluster.logs / f"leaving {client}.log"
        leaving = Process(f"leaving {client}", log, [*options, "--leave", "--give-up", "60"])
        leaving.start()
        self.faults["departure that was told"] += leaving.wait() == 0

    def _end(self, client: int, how: signal.Signals) -> None:
        device = self.cluster.devices[client]
        device.send(how)
        device.wait()
        self._send_away(client, device.start, f"{how.name} of a device")

    def _send_away(self, client: int, back: Callable[[], object], kind: str) -> None:
        self.away[client] = time.monotonic() + self.draw.uniform(*AWAY_S), back
        self.faults[kind] += 1

    def _come_back(self, now: float) -> None:
        for client, (until, back) in [*self.away.items()]:
            if until <= now:
                del self.away[client]
                back()


def run(root: Path, is_asynchronous: bool, kills: int, seconds: float, seed: int) -> Result:
    """Carry out one such run under `root`, with at most so many SIGKILLs, and its replay."""
    began = time.monotonic()
    experiment = replace(EXPERIMENT, buffer=BUFFER) if is_asynchronous else EXPERIMENT
    with asynchronous.cluster(root, experiment, SERVE, _client) as cluster:
        cluster.start_server()
        for client in range(DEVICES):
            cluster.start_device(client)
        speakers = _speakers(root, cluster, seed)
        try:
            federation = Federation(cluster, random.Random(seed), began + seconds)
            while time.monotonic() < federation.until:
                time.sleep(EVERY_S)
                federation.step(kills)
            if speakers.poll() is not None:
                raise RuntimeError(f"the speakers ended early; see {cluster.logs / 'speakers.log'}")
            federation.settle()
        finally:
            speakers.kill()
    return _result(cluster, federation, is_asynchronous, seed, began)


def _client(client: int) -> tuple[str, ...]:
    tags = "--tag", "kind=device", "--tag", f"site={client % 3}"
    return (*tags, "--sleep") if client % 2 else tags


def _speakers(root: Path, cluster: Cluster, seed: int) -> subprocess.Popen[bytes]:
    keys = root / "keys"
    words = f"127.0.0.1:{cluster.port}", keys / "server.keys", DEVICES, SPEAKERS, keys / "ca.pem", seed
    with open(cluster.logs / "speakers.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.speakers", *map(str, words)], stdout=log, stderr=log
        )


def _result(cluster: Cluster, federation: Federation, is_asynchronous: bool, seed: int, began: float) -> Result:
    """Replay the run, and return the result."""
    seconds = time.monotonic() - began
    outcomes, _, twice = asynchronous.counted(cluster.run)
    replay = asynchronous.replayed(cluster.run)
    progress = run_history.progress(cluster.run)
    third = (federation.until - began) / 3
    first = [mb for at, mb in federation.peaks if at < began + third] or [federation.peaks[0][1]]
    last = [mb for at, mb in federation.peaks if at >= federation.until - third]
    return Result(
        is_asynchronous,
        seed,
        round(seconds, 1),
        progress.round,
        len(progress.capacities),
        dict(federation.faults),
        dict(outcomes),
        twice,
        round(max(first), 1),
        round(max(last), 1),
        (replay.stdout or replay.stderr).strip(),
        replay.returncode == 0,
    )
