"""Seconds per round of Flower: a SuperLink and a SuperNode per client, real processes on loopback.

Flower needs a virtual environment of its own, as it pins packages that we do not need:

    python -m venv flower && flower/bin/pip install flwr
    python -m bench rounds --flower flower/bin/python

Its app is bench/flower_app. The run begins when every node has registered.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

from bench.processes import processes, wait_until
from bench.superlink import HOW as HOW
from bench.superlink import SuperLink
from bench.superlink import version as version

APP = Path(__file__).with_name("flower_app")
ROUND_S = 60.0


def rounds_s(python: Path, clients: int, rounds: int, parameters: int) -> list[float]:
    """Return the seconds of every round but the first and the last.

    The first round's processes are still starting, and the end of the last round is not seen.
    """
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as start:
        path, times = Path(folder), Path(folder) / "times"
        link = SuperLink(python, start, path)
        link.add_nodes([f"partition-id={number}" for number in range(clients)])
        link.run(APP, "app", f'rounds={rounds} clients={clients} parameters={parameters} times="{times}"')
        wait_until(lambda: len(_lines(times)) >= rounds, link.alive, ROUND_S * (rounds + 2))
        starts = [float(line) for line in _lines(times)]
    return [after - before for before, after in pairwise(starts[1:])]


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
