"""The time of a round over sockets, with secure aggregation and without it: real processes on loopback, TLS and keys.

All devices share the processors of one machine. So the time of a round is the sum of what all devices compute, which
devices of a real federation compute at the same time.
"""

from __future__ import annotations

import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.cluster import Cluster
from bench.secure.served_run import ServedRun
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history

FEW, MANY = 5, 15  # rounds of a short run and of a long run


class OneGroup(ServedRun):
    """FedAvg, whose clients of a round are one group."""

    @property
    def experiment(self) -> Experiment:
        return replace(super().experiment, methods=("fedavg",))


class Played(NamedTuple):
    """This has the seconds of each round but the first, and the processor seconds of the server and all devices."""

    seconds: list[float]
    cpu_s: float


def measure(devices: int) -> dict[str, Any]:
    """Return seconds of rounds without and with secure aggregation, and the processor seconds of a round.

    The processor seconds are those of the server and all devices together. A short and a long run differ by them, since
    both start as many processes.
    """
    found: dict[str, Any] = {"devices": devices, "method": "fedavg", "data": "digits"}
    for name in ("open", "secure"):
        short, long = (_played(devices, rounds, name == "secure") for rounds in (FEW, MANY))
        seconds = short.seconds + long.seconds
        found |= {f"{name}_median_s": round(median(seconds), 3), name: seconds}
        found[f"{name}_cpu_s"] = round((long.cpu_s - short.cpu_s) / (MANY - FEW), 3)
    return found


def _played(devices: int, rounds: int, is_secure: bool) -> Played:
    run = OneGroup(clients=devices, per_round=devices, rounds=rounds, kills=0, keep=(1.0,), step_s=60.0)
    before = _children_s()
    with (
        tempfile.TemporaryDirectory(prefix="edgefl-secure-") as folder,
        run.cluster(Path(folder), is_secure) as cluster,
    ):
        _play(run, cluster)
        seconds = [record["seconds"] for record in run_history.metrics(cluster.run)][1:]
    return Played([round(each, 3) for each in seconds], _children_s() - before)


def _children_s() -> float:
    """Return the processor seconds of the processes that this process has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _play(run: ServedRun, cluster: Cluster) -> None:
    cluster.start_server()
    for client in range(run.clients):
        cluster.start_device(client)
    cluster.finish()
