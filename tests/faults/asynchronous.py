"""Asynchronous rounds of real processes with TLS and keys, of which some are killed and some stop for seconds.

At the end the run is replayed, every accepted reply is part of one round, and devices that were stopped have stale
replies.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cluster import LOOK_EVERY_S, Cluster, Process, write_partitions
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from tests.faults.experiments import short_rounds

EVERY_S = 0.5  # seconds between two faults
AWAY_S = 0.5, 6.0  # shortest and longest time for which a process is away

ROUNDS = short_rounds("fedspu-es", clients=12, per_round=8, rounds=150, eval_every=150)
EXPERIMENT = replace(ROUNDS, buffer=3, methods=("fedspu",))


@dataclass(frozen=True)
class Result:
    """The result of a run.

    faults     number of SIGKILLs of the server, SIGKILLs of devices, and stops of devices
    outcomes   number of tasks by outcome
    staleness  number of accepted replies by staleness
    twice      accepted replies that no round, or more than one round, took in
    """

    seed: int
    seconds: float
    faults: dict[str, int]
    outcomes: dict[str, int]
    staleness: dict[int, int]
    twice: int
    replay: str
    identical: bool


def run(root: Path, kills: int, seed: int, experiment: Experiment = EXPERIMENT) -> Result:
    """Carry out one such run under `root` with so many SIGKILLs, and as many stops, and its replay."""
    began = time.monotonic()
    with cluster(root, experiment) as processes:
        processes.start_server()
        for client in range(experiment.clients):
            processes.start_device(client)
        faults = _strike(processes, kills, random.Random(seed))
        processes.finish()
    outcomes, staleness, twice = counted(processes.run)
    replay = replayed(processes.run)
    return Result(
        seed,
        round(time.monotonic() - began, 1),
        dict(faults),
        dict(outcomes),
        dict(sorted(staleness.items())),
        twice,
        (replay.stdout or replay.stderr).strip(),
        replay.returncode == 0,
    )


def replayed(path: Path) -> subprocess.CompletedProcess[str]:
    """Replay the run."""
    command = [sys.executable, "-m", "edgefl", "simulate", "--replay", str(path), "--workers", "1"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def counted(path: Path) -> tuple[Counter[str], Counter[int], int]:
    """Return the number of plans by outcome, the number of accepted replies by staleness, and the number of accepted
    replies that no round, or more than one round, took in.
    """
    progress, lines = run_history.progress(path), run_history.metrics(path)
    outcomes = Counter("none" if ruling is None else ruling.outcome for ruling in progress.rulings.values())
    replies = [(line["round"], each) for line in lines for each in line.get("clients", ()) if each["status"] == "on"]
    taken = Counter((round - each.get("staleness", 0), each["client"]) for round, each in replies)
    accepted = {key for key, ruling in progress.rulings.items() if ruling is not None and ruling.outcome == "accepted"}
    closed = {key for key in accepted if progress.closes.get(key, key[0]) <= progress.round}
    twice = sum(count != 1 for count in taken.values()) + len(closed ^ set(taken))
    return outcomes, Counter(each.get("staleness", 0) for _, each in replies), twice


def cluster(
    root: Path, experiment: Experiment, serve: Sequence[str] = (), client: Callable[[int], Sequence[str]] = lambda k: ()
) -> Cluster:
    """Return the processes of a run with TLS and keys, with further options of the server and of each client."""
    keys = root / "keys"
    keys.parent.mkdir(parents=True, exist_ok=True)
    make = [sys.executable, "-m", "edgefl", "keys", str(keys), "--clients", str(experiment.clients)]
    subprocess.run([*make, "--host", "127.0.0.1", "--quiet"], check=True)
    write_partitions(root / "shares", experiment)
    tls = "--tls-cert", str(keys / "server.pem"), "--tls-key", str(keys / "server-tls.key")
    ca = "--tls-ca", str(keys / "ca.pem")
    return Cluster(
        root,
        experiment,
        root / "shares",
        ("--keys", str(keys / "server.keys"), *tls, "--max-empty-rounds", "50", *serve),
        lambda k: ("--key", str(keys / f"device-{k:04d}.key"), *ca, *client(k)),
    )


def _strike(cluster: Cluster, kills: int, draw: random.Random) -> Counter[str]:
    """Kill a process, or stop a device, every half second, until there were so many SIGKILLs or the run is over."""
    faults, away = Counter[str](), dict[Process, tuple[float, signal.Signals]]()
    while sum(count for kind, count in faults.items() if "SIGKILL" in kind) < kills and cluster.server.ended() is None:
        time.sleep(EVERY_S)
        _return(cluster, away)
        there = [each for each in cluster.devices.values() if each not in away and each.ended() is None]
        if draw.random() < 0.2:
            cluster.server.kill()
            cluster.start_server()
            faults["SIGKILL of the server"] += 1
        elif there:
            device, fault = draw.choice(there), draw.choice((signal.SIGKILL, signal.SIGSTOP))
            device.send(fault)
            away[device] = time.monotonic() + draw.uniform(*AWAY_S), fault
            faults[f"{fault.name} of a device"] += 1
    while away:
        time.sleep(LOOK_EVERY_S)
        _return(cluster, away)
    return faults


def _return(cluster: Cluster, away: dict[Process, tuple[float, signal.Signals]]) -> None:
    """Let the devices go on whose time is over."""
    for device, (until, fault) in [*away.items()]:
        if time.monotonic() < until:
            continue
        del away[device]
        if fault == signal.SIGSTOP:
            device.send(signal.SIGCONT)
        else:
            device.wait()
            device.start()
