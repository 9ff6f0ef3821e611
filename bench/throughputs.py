"""Devices of unlike speed in one served run: FedSPU's fixed tiers beside cuts and shares by what devices measure.

    python -m bench throughputs
    python -m bench throughputs --cores .2,.1,.05,.02 --rounds 6

Eight `edgefl client` run on loopback, all in every round. Each is held to a share of a core (bench/throttle.py says
how). The shares of four go round by id, and so do FedSPU's tiers, without regard to speed. Both runs have one seed.
Seconds are the seconds of a device's training, as it says them. The second run's --round-seconds is the geometric mean
of the fastest and the slowest device of the first run, unless it is given. The virtual clock of a simulation has no
part in this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench import machine
from bench.cluster import Cluster, write_partitions
from bench.figures import Figure, print_json, print_table
from bench.throttle import Throttle, throttle
from edgefl.experiment.settings import Experiment
from edgefl.methods.throughput import FORETOLD
from edgefl.server import run_history

CORES = (0.4, 0.2, 0.1, 0.04)  # 1 : .5 : .25 : .1, which is 1.5 cores for all eight devices together
CLIENTS, ROUNDS, EPOCHS, DATA = 8, 10, 10, "spoken-digits"
LIMIT_S = 1200.0
NARROWER, NEAR, WITHIN = 3.0, 1.0, 20.0  # bars: a ratio, points of accuracy, and % of what was foretold


@dataclass(frozen=True)
class Run:
    """The end of a served run: by device the seconds of its rounds, foretold and taken, and its last request.

    `accuracy` is the mean accuracy of own models in %.
    """

    seconds: dict[int, list[float]]
    foretold: dict[int, list[tuple[float, float]]]
    offers: dict[int, str]
    accuracy: float

    @property
    def typical(self) -> list[float]:
        """The median of the rounds, by device."""
        return [median(times) for _, times in sorted(self.seconds.items())]

    @property
    def spread(self) -> float:
        """The slowest device's median over the fastest one's."""
        return max(self.typical) / min(self.typical)

    @property
    def inner_spread(self) -> float:
        """The time at nine tenths of all rounds of all devices, over the time at one tenth."""
        every = sorted(each for times in self.seconds.values() for each in times)
        return every[int(0.9 * (len(every) - 1))] / every[int(0.1 * (len(every) - 1))]


def main(arguments: list[str]) -> int:
    """Print a table of figures."""
    parser = argparse.ArgumentParser(prog="python -m bench throughputs", description=str(__doc__).splitlines()[0])
    parser.add_argument("--cores", type=_shares, default=CORES, metavar="SHARE,...", help="of a core, by id in turn")
    parser.add_argument("--data", default=DATA, help=f"default: {DATA}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--lr", type=float, default=Experiment.lr)
    parser.add_argument(
        "--round-seconds", type=float, help="default: between the fastest and the slowest device of fixed tiers"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then one per figure")
    options = parser.parse_args(arguments)
    show = print_json if options.json else print_table
    experiment = Experiment(
        ("fedspu",),
        options.data,
        partition="dirichlet:0.5",
        clients=CLIENTS,
        per_round=CLIENTS,
        rounds=options.rounds,
        eval_every=options.rounds,
        epochs=options.epochs,
        lr=options.lr,
    )
    show(machine.facts(), measure(experiment, options.cores, options.round_seconds))
    return 0


def measure(experiment: Experiment, cores: Sequence[float], round_seconds: float | None) -> Iterator[Figure]:
    """Yield the figures of both runs, one after the other, and of the replay of the second."""
    shares = [cores[client % len(cores)] for client in range(experiment.clients)]
    with tempfile.TemporaryDirectory() as folder, throttle() as held:
        root = Path(folder)
        write_partitions(root / "shares", experiment)
        yield Figure("cores of all devices together", sum(shares), "", note=f"held back by {held.how}")
        yield _load("before")
        tiers = _run(root / "tiers", experiment, root / "shares", shares, held)
        seconds = round_seconds or sqrt(min(tiers.typical) * max(tiers.typical))
        timed = replace(experiment, methods=("fedspu-cached",), options=(("round_seconds", seconds),))
        throughputs = _run(root / "paces", timed, root / "shares", shares, held)
        yield _load("after")
        yield from _devices("fixed tiers", tiers, shares)
        yield from _devices("paces", throughputs, shares)
        yield from _together(tiers, throughputs, seconds)
        yield Figure("parameters that differ from the replay's", _differing(root / "paces" / "run"), "", 0)


def _run(root: Path, experiment: Experiment, samples: Path, shares: Sequence[float], held: Throttle) -> Run:
    with Cluster(root, experiment, samples, ("--deadline", "none")) as cluster:
        cluster.start_server()
        for client, share in enumerate(shares):
            cluster.start_device(client)
            held.hold(cluster.devices[client].pid, share)
        cluster.finish(limit_s=LIMIT_S)
    log_records = run_history.metrics(cluster.run)
    records: dict[int, list[dict[str, Any]]] = {}
    for record in (record for log_record in log_records for record in log_record["clients"]):
        records.setdefault(record["client"], []).append(record)
    return Run(
        {client: [each["seconds"] for each in mine] for client, mine in records.items()},
        {c: [(each[FORETOLD], each["seconds"]) for each in mine if FORETOLD in each] for c, mine in records.items()},
        {client: f"p = {mine[-1]['keep']:g} {mine[-1].get('cut', '')}".strip() for client, mine in records.items()},
        100 * log_records[-1]["evaluation"]["personal"]["accuracy"],
    )


def _devices(what: str, run: Run, shares: Sequence[float]) -> Iterator[Figure]:
    for (client, times), seconds in zip(sorted(run.seconds.items()), run.typical, strict=True):
        note = f"{run.offers[client]}; {min(times):.2f} to {max(times):.2f}"
        if run.foretold[client]:
            note += f"; foretold {run.foretold[client][0][0]:.2f} at first, {run.foretold[client][-1][0]:.2f} at last"
        yield Figure(f"{what}: device {client} on {shares[client]:g} of a core, a round", seconds, "s", note=note)


def _together(tiers: Run, throughputs: Run, seconds: float) -> Iterator[Figure]:
    """Yield what is asked of the two runs together."""
    yield Figure("--round-seconds", seconds, "s")
    for what, run in (("fixed tiers", tiers), ("paces", throughputs)):
        bar = tiers.spread / NARROWER if run is throughputs else None
        yield Figure(f"{what}: the slowest device's round over the fastest one's", run.spread, "", bar)
        yield Figure(f"{what}: the same at 90 and 10 % of all rounds", run.inner_spread, "")
        yield Figure(f"{what}: accuracy of own models", run.accuracy, "%")
    yield Figure("points of accuracy that paces lose", max(0.0, tiers.accuracy - throughputs.accuracy), "", NEAR)
    pairs = [pair for mine in throughputs.foretold.values() for pair in mine]
    off = [100 * abs(took / told - 1) for told, took in pairs]
    yield Figure("rounds beside what was foretold, off by: median", median(off), "%", WITHIN)
    yield Figure("the same: mean", mean(off), "%", note=f"{sum(each <= WITHIN for each in off)} of {len(off)} within")


def _load(when: str) -> Figure:
    return Figure(f"load {when}", os.getloadavg()[0], "", note=f"{machine.facts()['cores']} cores")


def _differing(run: Path) -> float:
    command = [sys.executable, "-m", "edgefl", "simulate", "--replay", str(run), "--workers", "1"]
    return float(subprocess.run(command, capture_output=True, check=False).returncode != 0)


def _shares(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))
