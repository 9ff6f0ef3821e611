"""Rounds that wait, over-selected rounds and asynchronous rounds, of eight processes that hold unlike shares of a core.

    python -m bench waiting
    python -m bench waiting --seeds 1 --rounds 20

A round that waits asks 4 of 8 `edgefl client` and takes all replies. An over-selected round asks 5 clients and takes
the first 4 replies. An asynchronous round takes the first 2 replies of at most 5 clients that have a task, and has
2.4 times the rounds. Devices evaluate nothing while they train. Each run is replayed, and the replay's evaluations say
how accurate the model was after each round. The goal of a seed is the final accuracy of its run that waits, less one
point.

The bar, which was written before the runs: asynchronous rounds reach the goal in at most half of the seconds of the
rounds that wait, with at most 1.2 times their payload bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine
from bench.cluster import Cluster, write_partitions
from bench.figures import Figure, print_json, print_table
from bench.throttle import Throttle, throttle
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from edgefl.study.simulation.replay import replay

CORES = (0.4, 0.2, 0.1, 0.04)  # of four devices, and of four more: 1.5 cores for all eight together
WAITING = "rounds that wait"
LIMIT_S, LESS, LATER = 900.0, 0.01, 2.4
TIME_BAR, BYTES_BAR = 0.5, 1.2
EXPERIMENT = Experiment(
    ("fedspu",), "spoken-digits", partition="dirichlet:0.5", clients=8, per_round=4, rounds=10, epochs=5, lr=0.1
)


class Way(NamedTuple):
    """A way of running: how many clients are asked, the factor of the rounds, other settings, options of `serve`."""

    asked: int
    rounds: float
    settings: Mapping[str, Any]
    serve: tuple[str, ...]


WAYS = {
    WAITING: Way(4, 1.0, {}, ()),
    "over-selected rounds": Way(5, 1.0, {}, ("--quorum", "4")),
    "asynchronous rounds": Way(5, LATER, {"buffer": 2, "max_staleness": 30}, ()),
}


class Curve(NamedTuple):
    """The accuracy after each round of a run, and the seconds and the payload bytes from its start to the round."""

    accuracy: list[float]
    seconds: list[float]
    bytes: list[int]

    def at(self, goal: float) -> tuple[float, int] | None:
        """Return the seconds and the bytes at which the accuracy was at least `goal` for the first time, or None."""
        found = (round for round, accuracy in enumerate(self.accuracy) if accuracy >= goal)
        round = next(found, None)
        return None if round is None else (self.seconds[round], self.bytes[round])


def main(arguments: list[str]) -> int:
    """Print a table of figures."""
    parser = argparse.ArgumentParser(prog="python -m bench waiting", description=str(__doc__).splitlines()[0])
    parser.add_argument("--cores", type=_shares, default=CORES, metavar="SHARE,...", help="of a core, by id in turn")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--rounds", type=int, default=EXPERIMENT.rounds, metavar="N", help="number of rounds that wait")
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then one per figure")
    options = parser.parse_args(arguments)
    show = print_json if options.json else print_table
    show(machine.facts(), measure(replace(EXPERIMENT, rounds=options.rounds), options.cores, options.seeds))
    return 0


def measure(experiment: Experiment, cores: Sequence[float], seeds: int) -> Iterator[Figure]:
    """Yield for each seed the final accuracy of each way, and its seconds and bytes to the goal."""
    shares = [cores[client % len(cores)] for client in range(experiment.clients)]
    with tempfile.TemporaryDirectory() as folder, throttle() as held:
        yield Figure("cores of all devices together", sum(shares), "", note=f"held back by {held.how}")
        for seed in range(1, seeds + 1):
            place, seeded = Path(folder) / str(seed), replace(experiment, seed=seed)
            write_partitions(place / "shares", seeded)
            curves = {}
            for name, way in WAYS.items():
                curves[name] = run(place / name.replace(" ", "-"), seeded, place / "shares", way, shares, held)
                yield Figure(f"seed {seed}, {name}: final accuracy", 100 * curves[name].accuracy[-1], "%", note=_load())
            yield from _compared(f"seed {seed}", curves)


def run(root: Path, experiment: Experiment, samples: Path, way: Way, shares: Sequence[float], held: Throttle) -> Curve:
    """Serve one run to processes that hold these shares of a core, replay it, and return its curve."""
    rounds = round(way.rounds * experiment.rounds)
    asked = replace(experiment, per_round=way.asked, rounds=rounds, eval_every=rounds, **way.settings)
    with Cluster(root, asked, samples, ("--deadline", "none", "--wait-for", str(asked.clients), *way.serve)) as cluster:
        cluster.start_server()
        for client, share in enumerate(shares):
            cluster.start_device(client)
            held.hold(cluster.devices[client].pid, share)
        cluster.finish(limit_s=LIMIT_S)
    (root / "replay").mkdir()
    _, difference = replay(cluster.run, root / "replay", None, 1, eval_every=1)
    if difference is not None:
        raise RuntimeError(f"{root}: the replay differs: {difference}")
    return curve(run_history.metrics(cluster.run), root / "replay")


def curve(metrics: Sequence[dict[str, Any]], replayed: Path) -> Curve:
    """Return the curve of a run with these metrics, whose replay has evaluated every round."""
    lines = (replayed / "metrics.jsonl").read_text().splitlines()
    scores = [json.loads(line)["evaluation"]["personal"]["accuracy"] for line in lines]
    sizes = [sum(each["down"].values()) + sum(each["up"].values()) for each in metrics]
    return Curve(scores, list(accumulate(each["seconds"] for each in metrics)), list(accumulate(sizes)))


def _compared(seed: str, curves: dict[str, Curve]) -> Iterator[Figure]:
    waits = curves[WAITING]
    goal = waits.accuracy[-1] - LESS
    first = waits.at(goal)
    assert first is not None  # the last round has reached it
    for name, each in curves.items():
        found = each.at(goal)
        if found is None:
            yield Figure(f"{seed}, {name}: largest accuracy less the goal", 100 * (max(each.accuracy) - goal), "points")
            continue
        bars = (TIME_BAR, BYTES_BAR) if name.startswith("asynchronous") else (None, None)
        yield Figure(f"{seed}, {name}: seconds to the goal", found[0], "s", bars[0] and bars[0] * first[0])
        yield Figure(f"{seed}, {name}: payload to the goal", found[1] / 1e6, "MB", bars[1] and bars[1] * first[1] / 1e6)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


def _shares(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))
