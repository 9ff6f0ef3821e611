"""Two agents in the service of two servers: three runs, while the agents are killed and their conditions change.

Runs follow each other and also run side by side. The agents are killed at random moments. Each run must end as its
simulation. The agents are `edgefl agent` in processes that a fork server starts, so that a life does not cost a start
of Python. The first server has a run without keys and, at the same address, another one after it. The second server has
keys and TLS.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from bench.cluster import ENVIRONMENT, LIMIT_S, LOOK_EVERY_S, Cluster, write_partitions
from edgefl.deployment.agent.activity_file import read_activity
from edgefl.deployment.device.run_folders import RUNS, name_of
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.protocol.trust.keys import key_file, make_keys, read_key
from edgefl.server import run_history
from tests.faults.experiments import short_rounds
from tests.faults.outcome import Truth

METHODS = ("fedspu", "fedspu-es", "fedavg")  # one for each of the three runs
CLIENTS = 2
LIFE_S, SPELL_S = (0.05, 0.7), (0.1, 0.8)  # between kills, and between changes of the conditions
TOML = """
state = "{state}"
data = "{data}"
check_s = 0.05
settle_s = 0.05
poll_s = 0.3
turn_s = 0.5
keep_runs = 3
[conditions]
power = 0.5
max_celsius = 70
[[servers]]
address = "127.0.0.1:{first}"
id = {client}
[[servers]]
address = "127.0.0.1:{second}"
id = {client}
key = "{key}"
tls_ca = "{authority}"
"""


@dataclass
class Result:
    """The kills and pauses of a trial, and the first difference of each run from its simulation, or None.

    kills   of agents while a run went on. `moments` has what they did then, by their own word
    pauses  changes of the conditions so that they did not hold
    """

    kills: int = 0
    pauses: int = 0
    seconds: float = 0.0
    moments: dict[str, int] = field(default_factory=dict)
    differences: list[str | None] = field(default_factory=list)


class Machine:
    """A folder in place of /: mains that come and go, and a warm or a hot processor."""

    def __init__(self, root: Path) -> None:
        self._mains, self._zone = root / "sys/class/power_supply/AC", root / "sys/class/thermal/thermal_zone0"
        battery = root / "sys/class/power_supply/BAT0"
        for folder in (self._mains, self._zone, battery):
            folder.mkdir(parents=True)
        for file, text in (("type", "Battery"), ("capacity", "40"), ("status", "Discharging")):
            (battery / file).write_text(text)
        (self._mains / "type").write_text("Mains")
        self.set(True, 50)

    def set(self, on_mains: bool, celsius: int) -> None:
        """Set whether the mains is there, and the temperature of the processor in degrees Celsius."""
        (self._mains / "online").write_text(str(int(on_mains)))
        (self._zone / "temp").write_text(str(1000 * celsius))


class Agent:
    """The lives of one agent."""

    def __init__(self, directory: Path, client: int, servers: tuple[int, int], keys: Path, partitions: Path) -> None:
        directory.mkdir(parents=True)
        self.state, self.machine = directory / "state", Machine(directory / "root")
        self._file, self.log = directory / "agent.toml", directory / "log"
        words: dict[str, Any] = {"first": servers[0], "second": servers[1], "client": client}
        words |= {"key": key_file(keys, client), "data": partition_file(partitions, client), "state": self.state}
        words["authority"] = keys / "ca.pem"
        self._file.write_text(TOML.format(**words))
        self._arguments = ["agent", str(self._file), "--root", str(directory / "root")]
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        self._process = _context().Process(target=_life, args=(self._arguments, self.log), daemon=True)
        self._process.start()

    def is_dead(self) -> bool:
        """Return whether the agent was killed. Raises RuntimeError if it ended by itself, which an agent never does."""
        assert self._process is not None
        code = self._process.exitcode
        if code is not None and code >= 0:
            raise RuntimeError(f"an agent ended with {code}: {self.log.read_text()[-500:]}")
        return code is not None

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.join()


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["edgefl.cli.agent", "edgefl.cli.cli", "edgefl.kernels.native", __name__])
    return context


def _life(arguments: list[str], log: Path) -> None:
    """Run `edgefl agent` in this process, with its words in the log."""
    from edgefl.cli.cli import main

    os.environ.update(ENVIRONMENT)
    with open(log, "a", buffering=1) as out, contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        sys.exit(main(arguments))


class Service:
    """The servers and agents of one trial. Files go under `directory`."""

    def __init__(self, directory: Path, kills: int, seed: int, rounds: int, epochs: int) -> None:
        self._directory, self._kills, self._random = directory, kills, random.Random(seed)
        short = [short_rounds(method, CLIENTS, CLIENTS, rounds, 2) for method in METHODS]
        self._experiments = [replace(each, epochs=epochs) for each in short]
        self.result = Result()

    def run(self) -> Result:
        """Carry out all three runs to their ends. Raises RuntimeError if they take too long."""
        began = time.monotonic()
        keys, partitions = self._directory / "keys", self._directory / "shares"
        make_keys(keys, CLIENTS)
        make_certificates(keys, ["127.0.0.1"], CLIENTS, datetime.now(timezone.utc), days=1)
        secured = "--keys", "server.keys", "--tls-cert", "server.pem", "--tls-key", "server-tls.key"
        write_partitions(partitions, self._experiments[0])
        with contextlib.ExitStack() as stack:
            options = [word if word.startswith("--") else str(keys / word) for word in secured]
            first, second = self._server(0, stack), self._server(1, stack, *options)
            ports = first.port, second.port
            self._agents = [Agent(self._directory / f"agent{n}", n, ports, keys, partitions) for n in range(CLIENTS)]
            stack.callback(self._end)
            third = self._drive([first, second], stack)
        self.result.seconds = round(time.monotonic() - began, 1)
        for number, cluster in enumerate((first, second, third)):
            self.result.differences.append(self._difference(number, cluster, keys if number == 1 else None))
        return self.result

    def _server(self, number: int, stack: contextlib.ExitStack, *options: str, port: int = 0) -> Cluster:
        experiment, partitions = self._experiments[number], self._directory / "shares"
        cluster = stack.enter_context(Cluster(self._directory / f"server{number}", experiment, partitions, options))
        if port:
            cluster.port = port
            cluster.server.arguments = [*cluster.server.arguments[:-1], str(port)]
        cluster.start_server()
        return cluster

    def _drive(self, clusters: list[Cluster], stack: contextlib.ExitStack) -> Cluster:
        """Kill, change and start again until all is over. Return the server of the third run, which follows the first
        run.
        """
        until, third = time.monotonic() + LIMIT_S, None
        kills, changes = self._moments(LIFE_S), self._moments(SPELL_S)
        for agent in self._agents:
            agent.start()
        while third is None or any(cluster.server.ended() is None for cluster in clusters):
            if time.monotonic() > until:
                raise RuntimeError(f"not over after {LIMIT_S:g} s: {self._agents[0].log.read_text()[-500:]}")
            if third is None and clusters[0].server.ended() is not None:
                third = self._server(2, stack, port=clusters[0].port)
                clusters.append(third)
            if self.result.kills >= self._kills:
                self._calm()
            elif next(kills):
                self._kill()
            elif next(changes):
                self._change()
            for agent in self._agents:
                if agent.is_dead():
                    agent.start()
            time.sleep(LOOK_EVERY_S)
        return third

    def _moments(self, between_s: tuple[float, float]) -> Iterator[bool]:
        """Yield True now and then."""
        due = time.monotonic() + self._random.uniform(*between_s)
        while True:
            is_due = time.monotonic() >= due
            if is_due:
                due = time.monotonic() + self._random.uniform(*between_s)
            yield is_due

    def _kill(self) -> None:
        agent = self._random.choice(self._agents)
        found = read_activity(agent.state)
        doing = "starting" if found is None else found.doing.partition(": ")[2] or found.doing
        doing = " ".join(word for word in doing.split()[:2])
        agent.kill()
        self.result.kills += 1
        self.result.moments[doing] = self.result.moments.get(doing, 0) + 1

    def _change(self) -> None:
        agent, holds = self._random.choice(self._agents), self._random.random() < 0.6
        is_power = self._random.random() < 0.5
        agent.machine.set(holds or not is_power, 50 if holds or is_power else 90)
        self.result.pauses += not holds

    def _calm(self) -> None:
        """Set all conditions so that they hold, after the last kill."""
        for agent in self._agents:
            agent.machine.set(True, 50)

    def _end(self) -> None:
        for agent in self._agents:
            agent.kill()

    def _difference(self, number: int, cluster: Cluster, keys: Path | None) -> str | None:
        truth = Truth.of(self._experiments[number], self._directory / f"simulated{number}")
        if found := truth.server_difference(cluster.run):
            return found
        for client, agent in enumerate(self._agents):
            key = None if keys is None else read_key(key_file(keys, client))
            folder = agent.state / RUNS / name_of(run_history.run_id(cluster.run), key)
            if found := truth.personal_difference(folder, client):
                return f"device {client}: {found}"
        return None


def run(directory: Path, kills: int = 20, seed: int = 0, rounds: int = 6, epochs: int = 15) -> Result:
    """Carry out one trial. The epochs of a round are so many that a good part of the time is training."""
    return Service(directory, kills, seed, rounds, epochs).run()
