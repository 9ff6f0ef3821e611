"""`python -m bench ray`: rounds on Ray's actors beside rounds on threads of this process, the same clients and bits.

Every client has samples of the packaged digits, drawn anew for each client, and trains the preset CNN for as many
epochs as take about --ms. Both engines do whole rounds in turns. The first round of each is not counted, because actors
start before it. With --flower, a Python that has flwr[simulation] and torch does as many client rounds of equal length
in Flower's own simulation, with the model in torch (bench/flower_simulation.py).
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from bench import machine
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import Samples
from edgefl.methods import FedAvg, FedSPU
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.task import State
from edgefl.models.graph import architectures
from edgefl.rng import SPLIT, stream
from edgefl.study.simulation.engine import MakeEngine, Threads
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

MODEL, TRAIN, TEST = "digits_cnn", 80, 10
SEED = 1
APP = Path(__file__).with_name("flower_simulation.py")
METHODS: dict[str, type[FedSPU] | type[FedAvg]] = {"fedspu": FedSPU, "fedavg": FedAvg}


def main(arguments: list[str]) -> int:
    """Print seconds of rounds, and their ratio. Return 1 if the two engines leave other parameters."""
    options = _parser().parse_args(arguments)
    from edgefl.integrations.ray import cluster

    clients = federation(options.clients)
    method = _method(options, epochs_of(options, clients))
    print(f"{machine.facts()}")
    print(f"{options.clients} clients, {options.workers} workers, {method.name}, {method.epochs} epochs of {TRAIN}")
    rounds, workers = 1 + options.turns, options.workers
    settings = Settings(rounds, rounds, rounds, workers=workers)
    with cluster(options.ray_address, workers) as actors, tempfile.TemporaryDirectory() as folder:
        runs = timed(Path(folder), method, clients, {"threads": Threads, "ray": actors}, settings)
    seconds = {name: median(run.seconds[1:]) for name, run in runs.items()}
    for name, each in seconds.items():
        of_it = f"of which {runs[name].training_ms:.1f} ms train"
        print(f"{name:8} {each:9.2f} s a round, {1e3 * each * workers / options.clients:7.1f} ms a client, {of_it}")
    print(f"ray takes {seconds['ray'] / seconds['threads']:.3f} of the threads' time")
    same = _bits(runs["ray"].state) == _bits(runs["threads"].state)
    print("parameters bit for bit the same" if same else "OTHER PARAMETERS")
    if options.flower is not None:
        command = [
            str(options.flower),
            str(APP),
            *map(str, (options.clients, options.workers, options.ms, options.turns)),
        ]
        subprocess.run(command, check=True)
    return int(not same)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench ray", description=__doc__)
    parser.add_argument("--clients", type=int, default=300, help="all of them take part in every round")
    parser.add_argument("--ms", type=float, default=100.0, help="of a client's round, about")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1, help="rounds of each engine, after the first")
    parser.add_argument("--method", choices=METHODS, default="fedspu")
    parser.add_argument("--ray-address", help="of a cluster; default: one of its own")
    parser.add_argument("--flower", type=Path, metavar="PYTHON", help="one that has flwr[simulation] and torch")
    return parser


def federation(clients: int) -> Federation:
    """Return so many clients of equal sizes. They share samples, because there are too few for all clients."""
    data = load("digits")
    splits = []
    for client in range(clients):
        rows = stream(SEED, SPLIT, client=client).permutation(len(data.y))[: TRAIN + TEST].astype(np.int32)
        splits.append(Split(np.sort(rows[:TRAIN]), rows[:0], np.sort(rows[TRAIN:])))
    graph = architectures.build(MODEL, data.input_shape, data.classes)
    return Federation(graph, Samples(data.x, data.y, data.scale, data.shift), tuple(splits), SEED)


def _method(options: argparse.Namespace, epochs: int) -> FedSPU | FedAvg:
    return METHODS[options.method](per_round=options.clients, epochs=epochs)


def epochs_of(options: argparse.Namespace, clients: Federation) -> int:
    """Return the epochs after which a client's round takes about the time asked for, by a trial of a few clients."""
    few, epochs = Federation(clients.graph, clients.data, clients.clients[:5], SEED), 50
    method = METHODS[options.method](per_round=5, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        trial = timed(Path(folder), method, few, {"threads": Threads}, Settings(3, 3, 3))
    return max(1, round(epochs * options.ms / (1e3 * min(trial["threads"].seconds) / len(few.clients))))


class _Turns:
    """Turns of several threads: one goes on at a time, until it passes the turn on."""

    def __init__(self, names: Iterable[str]) -> None:
        self._order, self._changed = list(names), threading.Condition()

    def wait(self, name: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._order[0] == name)

    def next(self, name: str, has_ended: bool = False) -> None:
        with self._changed:
            self._order.remove(name)
            if not has_ended:
                self._order.append(name)
            self._changed.notify_all()


class _Run(threading.Thread):
    """A simulation that does its rounds in turns with others."""

    def __init__(
        self,
        folder: Path,
        turns: _Turns,
        method: Algorithm,
        clients: Federation,
        engine: MakeEngine,
        settings: Settings,
    ) -> None:
        super().__init__(name=folder.name, daemon=True)
        self._folder, self._turns, self._method, self._clients = folder, turns, method, clients
        self._engine, self._settings = engine, settings
        self.seconds: list[float] = []
        self.training_ms = 0.0  # mean over the clients of the last round
        self.state: State | None = None

    def run(self) -> None:
        self._turns.wait(self.name)
        journal = Journal(self._folder)
        try:
            self.state = simulate(
                self._method, self._clients, self._settings, journal, self._pass_on, engine=self._engine
            )
        finally:
            journal.close()
            self._turns.next(self.name, has_ended=True)

    def _pass_on(self, log_record: dict[str, Any]) -> None:
        """Note the seconds of a round, and pass the turn on.

        The seconds are from the log record, so that no evaluation, no start of actors and no commit is in them.
        """
        self.seconds.append(float(log_record["seconds"]))
        self.training_ms = 1e3 * mean(each["seconds"] for each in log_record["clients"])
        self._turns.next(self.name)
        self._turns.wait(self.name)


def timed(
    folder: Path, method: Algorithm, clients: Federation, engines: Mapping[str, MakeEngine], settings: Settings
) -> dict[str, _Run]:
    """Carry out the rounds of all engines, in turns."""
    turns = _Turns(engines)
    runs = {name: _Run(folder / name, turns, method, clients, engine, settings) for name, engine in engines.items()}
    for each in runs.values():
        each.start()
    for each in runs.values():
        each.join()
    return runs


def _bits(state: State | None) -> dict[str, bytes]:
    assert state is not None
    return {f"{of}/{name}": each.tobytes() for of, group in state.arrays.items() for name, each in group.items()}
