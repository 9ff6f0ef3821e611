"""Makes the fixture of stored runs: `python -m tests.stored.make` writes VERSION.tar.xz beside this file.

The archive has what an edgefl of this commit leaves behind when it is stopped. `simulated` is a simulation of two
methods with two of its rounds. `run` is a served run that was killed in the middle. `devices` is the state of its
devices. test_stored_runs.py goes on with them. A fixture is made once for a release and never again, because the code
has to read it.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path

os.environ["EDGEFL_ISA"] = "scalar"  # its bits are equal on every machine

from bench.cluster import Cluster, await_, write_partitions
from edgefl import __version__
from edgefl.cli.cli import main
from edgefl.server import run_history
from tests.stored.runs import SERVED, SIMULATED, STORED_ROUNDS, archive


def make(folder: Path) -> None:
    assert main(["simulate", *SIMULATED, "--rounds", str(STORED_ROUNDS), "--run-dir", str(folder / "simulated")]) == 0
    shares = folder / "shares"
    write_partitions(shares, SERVED)
    with Cluster(folder, SERVED, shares) as cluster:
        cluster.start_server()
        for client in range(SERVED.clients):
            cluster.start_device(client)
        await_(lambda: run_history.progress(cluster.run).round >= STORED_ROUNDS, "rounds are closed")
        for process in (cluster.server, *cluster.devices.values()):
            process.kill()
    assert run_history.progress(folder / "run").round < SERVED.rounds


def pack(folder: Path, file: Path) -> None:
    with tarfile.open(file, "w:xz") as tar:
        for name in ("simulated", "run", "devices"):
            tar.add(folder / name, name)


if __name__ == "__main__":
    place = archive(__version__)
    if place.exists():
        sys.exit(f"{place} is there; expected a version that has no fixture yet")
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        pack(Path(made), place)
    print(f"{place}: {place.stat().st_size} bytes")
