"""One small run brought to rest at each point at which a server may be found, for the cases of rest.py.

enrolled  killed when the first device had enrolled, before round 1
killed    killed when the replies of round 2 were there, before its arrays were written
closing   killed when the arrays were written, before the commit that closes the round
paused    ended by SIGTERM
over      ended by itself after the last round
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.cluster import Cluster, await_
from edgefl.server import run_history
from tests.faults.experiments import short_rounds
from tests.faults.rest import Stage
from tests.faults.steps import Fault, Steps

EXPERIMENT = short_rounds("fedspu-es", clients=2, per_round=2, rounds=3, eval_every=2)
CLOSING = "open server/.000002.safetensors.tmp"
WRITTEN = "rename server/000002.safetensors +1"


def server_stages(directory: Path, partitions: Path) -> Iterator[Stage]:
    """Yield the stages in order. Each is a copy of the run, which then goes on to the next. It needs Linux and a C
    compiler.
    """
    directory.mkdir(parents=True)
    steps, root, older = Steps(directory), directory / "run", None
    todo: dict[str, Callable[[Cluster], None]] = {
        "enrolled": _enrol,
        "killed": lambda cluster: _kill(cluster, steps, CLOSING),
        "closing": lambda cluster: _kill(cluster, steps, WRITTEN),
        "paused": _pause,
        "over": _finish,
    }
    for name, bring in todo.items():
        shutil.rmtree(root / "logs", ignore_errors=True)
        with Cluster(root, EXPERIMENT, partitions) as cluster:
            bring(cluster)
        stage = Stage(name, directory / name, older)
        shutil.copytree(root, stage.root)
        older = stage.root
        yield stage


def _enrol(cluster: Cluster) -> None:
    cluster.start_server()
    cluster.start_device(0)
    await_(lambda: run_history.progress(cluster.run).capacities, "a device has enrolled")


def _kill(cluster: Cluster, steps: Steps, step: str) -> None:
    cluster.start_server(steps.environment(cluster.run, cluster.logs / "steps", Fault("killed before", step)))
    for client in range(EXPERIMENT.clients):
        cluster.start_device(client)
    if cluster.server.wait() != -signal.SIGKILL:
        raise RuntimeError(f"the server was not killed before {step}")


def _pause(cluster: Cluster) -> None:
    cluster.start_server()
    cluster.server.send(signal.SIGTERM)
    cluster.server.wait()


def _finish(cluster: Cluster) -> None:
    cluster.start_server()
    for client in range(EXPERIMENT.clients):
        cluster.start_device(client)
    cluster.finish()
