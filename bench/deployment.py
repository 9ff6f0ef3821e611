"""Methods of edgefl in a real deployment of Flower: a SuperLink with TLS, four SuperNodes with keys, real processes.

    python -m venv flower && flower/bin/pip install '.[flower,keys]'
    python -m bench flower --flower flower/bin/python
    python -m bench flower --flower flower/bin/python --kill app,server,node  # by SIGKILL, one a round from the second

Every run is compared with its simulation, bit for bit. Resident memory is read twice a second, so that a process that
lives for a shorter time may have had more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from bench import machine
from bench.figures import Figure, print_json, print_table
from bench.processes import Process, processes, wait_until
from bench.superlink import SuperLink, end, version
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.settings import Experiment
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.server import run_history
from edgefl.server.run_history import is_served
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate

APP = Path(__file__).with_name("flower_edgefl")
METHODS = ("fedspu", "pflego", "fedspa", "fedavg")
CLIENTS, ROUNDS = 4, 6
EXPERIMENT = Experiment(
    METHODS[:1],
    model="pflego_mlp",
    clients=CLIENTS,
    per_round=CLIENTS,
    rounds=ROUNDS,
    eval_every=ROUNDS,
    epochs=1,
    keep=(0.2, 0.4, 0.6, 0.8, 1.0),
)
ROUND_S = 120.0
KB, MB = 1e3, 1e6
LOOK_EVERY_S = 0.5
KINDS = ("flower-superlink", "flower-supernode", "flwr-clientapp", "flwr-serverapp", "flower-superexec")


def main(arguments: list[str]) -> int:
    """Print a table of figures."""
    parser = argparse.ArgumentParser(prog="python -m bench flower", description=str(__doc__).splitlines()[0])
    parser.add_argument("--flower", type=Path, required=True, metavar="PYTHON", help="of an environment with flwr")
    parser.add_argument("--methods", default=",".join(METHODS), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--kill", type=_kills, default=(), metavar="WHAT,...", help=f"of {', '.join(KILLS)}")
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then one per figure")
    options = parser.parse_args(arguments)
    facts, methods = machine.facts(), options.methods.split(",")
    facts["flwr"] = version(options.flower)
    show = print_json if options.json else print_table
    show(facts, measure(options.flower, methods, options.rounds, options.kill))
    return 0


def measure(python: Path, methods: Sequence[str], rounds: int, kills: Sequence[str] = ()) -> Iterator[Figure]:
    """Run each method after the other on one SuperLink and its SuperNodes."""
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as start:
        path = Path(folder)
        (path / "trust").mkdir()
        make_certificates(path / "trust", ["127.0.0.1", "localhost"], 0, datetime.now(timezone.utc), 2)
        federation = assemble(EXPERIMENT)
        for client in range(CLIENTS):
            write_partition(partition_file(path, client), federation, client)
        link = SuperLink(python, start, path, path / "trust")
        deployed = Deployed(link, path, Resident(path / "home"))
        link.add_nodes([deployed.config(client) for client in range(CLIENTS)])
        for name in methods:
            yield from deployed.run(replace(EXPERIMENT, methods=(name,), rounds=rounds, eval_every=rounds), kills)
        for kind, size in deployed.resident.most.items():
            yield Figure(f"resident, {kind}", size / MB, "MB", note="the largest of its kind, VmHWM")


@dataclass
class Deployed:
    """Methods that are run in one deployment."""

    link: SuperLink
    path: Path
    resident: Resident

    def config(self, client: int) -> str:
        """Return the node config of a client."""
        data, state = partition_file(self.path, client), self.path / f"state-{client}"
        return f'partition-id={client} data="{data}" state="{state}"'

    def run(self, experiment: Experiment, kills: Sequence[str]) -> Iterator[Figure]:
        """Yield what a run took to its end, and whether it equals its simulation."""
        (name,) = experiment.methods
        run, file = self.path / f"run-{name}", self.path / f"{name}.json"
        file.write_text(json.dumps(experiment.to_json()))
        config = f'experiment="{file}" run-dir="{run}"'
        begun = time.monotonic()
        submitted = [self.link.run(APP, f"submit-{name}", config)]
        closed: dict[int, float] = {}
        killing = Killing(self, kills, submitted, config)

        def is_over() -> bool:
            self.resident.look()
            found = run_history.metrics(run) if is_served(run) else []
            for log_record in found:
                closed.setdefault(log_record["round"], time.monotonic())
            killing.look(len(found))
            return len(found) == experiment.rounds and "evaluation" in found[-1]

        wait_until(is_over, self.link.alive, ROUND_S * (experiment.rounds + 4))
        times = [closed[number] for number in sorted(closed)]
        lengths = [after - before for before, after in pairwise(times)]
        yield Figure(
            f"{name}: to the end of round 1", times[0] - begun, "s", note="submitted, enrolled, model, trained"
        )
        note = f"median of {len(lengths)}, from {min(lengths):.1f} to {max(lengths):.1f}"
        yield Figure(f"{name}: a round", median(lengths), "s", note=note)
        for what, length in zip(kills, lengths):
            yield Figure(f"{name}: the round in which {what} was killed", length, "s", note=killing.notes[what])
        yield from _bytes(name, run)
        same = is_simulated(run, experiment, self.path / f"simulated-{name}")
        yield Figure(f"{name}: parameters that differ from the simulation's", 0 if same else math.nan, "", 0)
        self.resident.wait_for_the_end()


class Killing:
    """SIGKILL, one in a round from the second round on, and the work by hand that follows it."""

    def __init__(self, deployed: Deployed, kills: Sequence[str], submitted: list[Process], config: str) -> None:
        self._deployed, self._kills, self._submitted, self._config = deployed, kills, submitted, config
        self.notes: dict[str, str] = {}

    def look(self, closed: int) -> None:
        """Kill the next process, once `closed` rounds are closed."""
        if closed == len(self.notes) + 1 and closed <= len(self._kills):
            what = self._kills[closed - 1]
            note = KILLS[what](self)
            if note:
                self.notes[what] = note

    def node(self) -> str:
        """Kill the SuperNode of client 0. It is started again until it is let in."""
        link, killed = self._deployed.link, time.monotonic()
        end(link.nodes[0].handle.pid)
        link.nodes[0].handle.wait()
        link.let_in_again(0, self._deployed.config(0))
        return f"let in again after {time.monotonic() - killed:.0f} s"

    def app(self) -> str:
        """Kill a ClientApp, as soon as there is one. Nothing is done by hand afterwards."""
        for pid in self._deployed.resident.of("flwr-clientapp")[:1]:
            end(pid)
            return "asked again"
        return ""

    def server(self) -> str:
        """Kill the ServerApp. The run is submitted again."""
        for pid in self._deployed.resident.of("flwr-serverapp")[:1]:
            end(pid)
            link = self._deployed.link
            self._submitted.append(link.run(APP, f"{self._submitted[0].name}-again", self._config))
            return "`flwr run` again, with the same run directory"
        return ""


KILLS = {"node": Killing.node, "app": Killing.app, "server": Killing.server}


def _kills(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in KILLS:
            raise argparse.ArgumentTypeError(f"{name!r}; expected some of {', '.join(KILLS)}")
    return tuple(text.split(","))


class Resident:
    """The processes of one FLWR_HOME by kind, and the largest resident memory of a process of each kind, in bytes."""

    def __init__(self, home: Path) -> None:
        self._mark = f"FLWR_HOME={home}".encode()
        self._looked_at = 0.0
        self.most: dict[str, int] = {}

    def look(self) -> None:
        """Look at the processes, but not more often than every LOOK_EVERY_S seconds."""
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        for kind in KINDS:
            for pid in self.of(kind):
                self.most[kind] = max(self.most.get(kind, 0), _peak(pid))

    def of(self, kind: str) -> list[int]:
        """Return the ids of the processes of a kind."""
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._is(pid, kind)]

    def wait_for_the_end(self) -> None:
        """Wait until no app of the run is left, so that the next run finds the nodes idle."""
        until = time.monotonic() + ROUND_S
        while self.of("flwr-serverapp") and time.monotonic() < until:
            time.sleep(LOOK_EVERY_S)

    def _is(self, pid: int, kind: str) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return any(Path(word.decode()).name == kind for word in words[:2]) and self._mark in Path(
                f"/proc/{pid}/environ"
            ).read_bytes().split(b"\0")
        except OSError:
            return False


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _bytes(name: str, run: Path) -> Iterator[Figure]:
    """Yield the payload of a round over all clients, and the bytes that envelopes add."""
    log_records = run_history.metrics(run)
    for way in ("down", "up"):
        payload = [sum(log_record[way].values()) for log_record in log_records]
        yield Figure(f"{name}: payload of a round, {way}", median(payload) / KB, "kB", note=f"{CLIENTS} clients")
    total = run_history.traffic(run)[-1]
    note = f"all letters of {len(log_records)} rounds: enrolment, model, evaluation among them"
    yield Figure(f"{name}: letters, down", total.sent / KB, "kB", note=note)
    yield Figure(f"{name}: letters, up", total.received / KB, "kB", note=note)


def is_simulated(run: Path, experiment: Experiment, path: Path) -> bool:
    """Return whether the run's parameters and scores are the simulation's, bit for bit."""
    ((_, method),) = experiment.algorithms().items()
    journal = Journal(path)
    state = simulate(method, assemble(experiment), experiment.settings(1), journal)
    journal.close()
    found, scores = run_history.progress(run).state, [log_record.get("evaluation") for log_record in read_metrics(path)]
    return (
        found is not None
        and found.arrays.keys() == state.arrays.keys()
        and all(
            found.arrays[kind].keys() == arrays.keys()
            and all(np.array_equal(found.arrays[kind][name], value) for name, value in arrays.items())
            for kind, arrays in state.arrays.items()
        )
        and [log_record.get("evaluation") for log_record in run_history.metrics(run)] == scores
    )
