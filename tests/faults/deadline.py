"""Rounds with a deadline, a device that died and a slow one: do they close on time, and replay identically?

Device DEAD is killed in round 1 when it has trained and not uploaded, and comes back after the last round. Device SLOW
is stopped at the same point until that round is over.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster, await_, write_partitions
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from tests.faults.experiments import short_rounds
from tests.faults.steps import Fault, Steps

DEAD, SLOW = 2, 3
TRAINED = "open .pending.safetensors.tmp"  # the step of a device that follows its training

EXPERIMENT = short_rounds("fedspu-es", clients=4, per_round=4, rounds=3, eval_every=3)


@dataclass(frozen=True)
class Result:
    """The result of a run. `late_s` is how many seconds after its deadline each round closed.

    `took_part` has the outcome by round and client.
    """

    deadline_s: float
    late_s: list[float]
    took_part: list[dict[int, str]]
    replay: str
    identical: bool


def run(root: Path, deadline_s: float, experiment: Experiment = EXPERIMENT) -> Result:
    """Carry out one such run under `root`, and its replay by `edgefl simulate --replay`."""
    root.mkdir(parents=True, exist_ok=True)
    steps = Steps(root)
    write_partitions(root / "shares", experiment)
    limits = "--deadline", str(deadline_s), "--evaluation-deadline", str(deadline_s)
    with Cluster(root, experiment, root / "shares", limits) as cluster:
        cluster.start_server()
        for client in range(experiment.clients):
            cluster.start_device(client, _environment(steps, cluster, client))
        await_(cluster.devices[SLOW].is_stopped, "the slow device has trained")
        await_(lambda: _rounds(cluster) >= 1, "round 1 is closed")
        cluster.devices[SLOW].send(signal.SIGCONT)
        await_(lambda: _rounds(cluster) == experiment.rounds, "the last round is closed")
        cluster.finish()  # starts the dead one again
    command = [sys.executable, "-m", "edgefl", "simulate", "--replay", str(cluster.run), "--workers", "1"]
    replay = subprocess.run(command, capture_output=True, text=True, check=False)
    log_records = run_history.metrics(cluster.run)
    took_part: list[dict[int, str]] = [{} for _ in log_records]
    for (number, client), ruling in run_history.progress(cluster.run).rulings.items():
        took_part[number - 1][client] = "absent" if ruling is None else ruling.outcome
    late_s = [round(log_record["seconds"] - deadline_s, 4) for log_record in log_records]
    return Result(deadline_s, late_s, took_part, (replay.stdout or replay.stderr).strip(), replay.returncode == 0)


def _rounds(cluster: Cluster) -> int:
    return len(run_history.metrics(cluster.run))


def _environment(steps: Steps, cluster: Cluster, client: int) -> dict[str, str] | None:
    faults = {DEAD: Fault("killed before", TRAINED), SLOW: Fault("stopped before", TRAINED)}
    if client not in faults:
        return None
    return steps.environment(cluster.state_of(client), cluster.logs / f"steps-{client}", faults[client])
