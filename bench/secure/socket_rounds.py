"""The time of a round over sockets, with secure aggregation and without it: real processes on loopback, TLS and keys.

All devices share the processors of one machine. So the time of a round is the sum of what all devices compute, which
devices of a real federation compute at the same time.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.faults.cluster import Cluster
from bench.secure.served_run import ServedRun
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history

ROUNDS, TURNS = 5, 2


class OneGroup(ServedRun):
    """FedAvg, whose clients of a round are one group."""

    @property
    def experiment(self) -> Experiment:
        return replace(super().experiment, methods=("fedavg",))


def measure(devices: int) -> dict[str, Any]:
    """Return seconds of each round but the first, in turns without and with secure aggregation, and their medians."""
    run = OneGroup(clients=devices, per_round=devices, rounds=ROUNDS, kills=0, keep=(1.0,), step_s=60.0)
    found: dict[str, list[float]] = {"open": [], "secure": []}
    for _ in range(TURNS):
        for name, seconds in found.items():
            with tempfile.TemporaryDirectory(prefix="edgefl-secure-") as folder:
                seconds += _seconds(run, Path(folder), name == "secure")
    medians = {f"{name}_median_s": round(median(seconds), 3) for name, seconds in found.items()}
    return {"devices": devices, "method": "fedavg", "data": "digits", **medians, **found}


def _seconds(run: ServedRun, root: Path, is_secure: bool) -> list[float]:
    with run.cluster(root, is_secure) as cluster:
        _play(run, cluster)
        return [round(record["seconds"], 3) for record in run_history.metrics(cluster.run)][1:]


def _play(run: ServedRun, cluster: Cluster) -> None:
    cluster.start_server()
    for client in range(run.clients):
        cluster.start_device(client)
    cluster.finish()
