"""Served runs of 20 devices on Fashion-MNIST, partitioned by a Dirichlet distribution of 0.5, against their simulation.

One run is undisturbed, and one has faults. All planned clients must answer. The server is killed in round 2, when some
of its replies are stored and others are not. The disk of its second life is full for a while when it closes this round.
Four devices that train in round 1 have a fault, too. One is killed when it has trained, one when it has written its
reply and not uploaded it, and one when it has uploaded its reply and has no verdict yet. The disk of the fourth is full
for a while when it has trained.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster, await_, write_partitions
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from tests.faults.outcome import Truth
from tests.faults.steps import Fault, Steps

EXPERIMENT = Experiment(
    methods=("fedspu",),
    data="fashion-mnist",
    partition="dirichlet:0.5",
    clients=20,
    per_round=10,
    rounds=3,
    eval_every=3,
    keep=(0.2, 0.4, 0.6, 0.8, 1.0),
    epochs=1,
)
TRAINED = "open .pending.safetensors.tmp"  # the step of a device that follows its training
UPLOAD = "rename pending.safetensors +2"  # the folder is synced, then the reply is sent
FULL_S = 2.0
DEVICE_FAULTS = (
    Fault("killed before", TRAINED),
    Fault("killed before", UPLOAD),
    Fault("killed after", UPLOAD),
    Fault("disk full from", TRAINED, FULL_S),
)
SERVER_FAULT = Fault("disk full from", "open server/.000002.safetensors.tmp", FULL_S)  # in the server's second life


@dataclass(frozen=True)
class Result:
    """One served run beside its simulation.

    lives             of all processes together: the server, the devices, and again those that were killed
    simulated_s       seconds of the simulation, with one worker
    served_s          seconds from the server's start to the last device's end
    sent_bytes, ...   through the server's sockets in its last life, over all its rounds, headers included
    difference        from the simulation, in words, or None if everything is bit-identical, global and personal
    """

    what: str
    lives: int
    simulated_s: float
    served_s: float
    sent_bytes: int
    received_bytes: int
    header_bytes: int
    difference: str | None


def run(root: Path, data_dir: str | None = None, experiment: Experiment = EXPERIMENT) -> Iterator[Result]:
    """Carry out both runs under `root`. Raises DataError if the data are absent."""
    started = time.perf_counter()
    truth = Truth.of(experiment, root / "simulated", data_dir)
    simulated_s = time.perf_counter() - started
    write_partitions(root / "shares", experiment, data_dir)
    steps = Steps(root)
    where = () if data_dir is None else ("--data-dir", data_dir)
    for what in ("nothing happens", "killed and full"):
        cluster = Cluster(root / what, experiment, root / "shares", where)
        started = time.perf_counter()
        with cluster:
            if what == "nothing happens":
                _start(cluster, experiment, {})
            else:
                _strike(cluster, experiment, truth, steps)
            cluster.finish()
        served_s = time.perf_counter() - started
        lives = sum(process.lives for process in (cluster.server, *cluster.devices.values()))
        traffic = run_history.traffic(cluster.run)[-1]
        headers = traffic.sent_headers + traffic.received_headers
        times = round(simulated_s, 1), round(served_s, 1)
        yield Result(what, lives, *times, traffic.sent, traffic.received, headers, truth.difference(cluster))


def _start(cluster: Cluster, experiment: Experiment, environments: Mapping[int, Mapping[str, str]]) -> None:
    cluster.start_server()
    for client in range(experiment.clients):
        cluster.start_device(client, environments.get(client))


def _strike(cluster: Cluster, experiment: Experiment, truth: Truth, steps: Steps) -> None:
    """Start all processes, start again the devices that are killed in round 1, and the server in round 2."""
    planned = [each["client"] for each in truth.metrics[0]["clients"]]
    struck = dict(zip(planned, DEVICE_FAULTS, strict=False))
    environments = {
        client: steps.environment(cluster.state_of(client), cluster.logs / f"{client}.steps", fault)
        for client, fault in struck.items()
    }
    _start(cluster, experiment, environments)
    for client in [client for client, fault in struck.items() if fault.kind.startswith("killed")]:
        cluster.devices[client].wait()
        cluster.start_device(client)
    await_(lambda: _is_partly_stored(cluster, 2), "some replies of round 2 are stored")
    cluster.server.kill()
    cluster.start_server(steps.environment(cluster.run, cluster.logs / "server.steps", SERVER_FAULT))


def _is_partly_stored(cluster: Cluster, round: int) -> bool:
    progress = run_history.progress(cluster.run)
    return progress.round >= round or (progress.round == round - 1 and bool(progress.answers))
