"""A whole federation on one machine: a real server process and one device process per client, on loopback.

The processes are `edgefl serve` and `edgefl client`. This file starts and watches the processes, and measures time
and memory. demo.py prints the tables. Memory is the peak resident set that Linux counts for a device's process, and
it includes the interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.evaluation_rounds import is_evaluated
from edgefl.experiment.federation import Federation
from edgefl.experiment.presets import defaults
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.methods.method_label import Variant
from edgefl.server import run_history
from edgefl.server.endpoint import read_endpoint

LOOK_EVERY_S = 0.1
START_S = 120.0  # time in seconds in which the server has to listen

EXPERIMENT = Experiment(
    methods=("fedspu-es", "fedavg-ft"),
    data="spoken-digits",
    **{**defaults("spoken-digits"), "rounds": 20},
)


@dataclass(frozen=True)
class Served:
    """The run of one method over sockets.

    log_records  metrics, one record for each round
    server       what the method's server recorded beside its arrays
    peak_bytes   largest memory of each device's process in bytes; None where the system does not tell
    seconds      time from the first start of a process to the last end
    """

    method: str
    path: Path
    log_records: list[dict[str, Any]]
    server: dict[str, Any]
    peak_bytes: list[int | None]
    seconds: float


def write_partitions(directory: Path, experiment: Experiment) -> Federation:
    """Write the samples of every device into a file of its own. Return the federation that they come from."""
    federation = assemble(experiment)
    directory.mkdir(parents=True, exist_ok=True)
    for client in range(experiment.clients):
        write_partition(partition_file(directory, client), federation, client)
    return federation


def serve(path: Path, experiment: Experiment, partitions: Path, watch: Callable[[dict[str, Any]], None]) -> Served:
    """Run one method to its end with a server and a device per client. The experiment has one method.

    watch   called with every metrics line, in the order of rounds
    Raises  RunError with the last words of the process that failed
    """
    open_run(path, experiment.to_json())
    (label,) = experiment.methods
    allowed = ("--allow-method", Variant.of(label).method)
    started = time.perf_counter()
    with _processes(path) as start:
        server = start("server", "serve", "--resume", str(path), "--port", "0")
        address = _address(path, server)
        devices = [
            start(
                f"device-{client:04d}",
                "client",
                *("--server", address, "--id", str(client), *allowed),
                *("--state", str(path / "devices" / str(client)), "--data", str(partition_file(partitions, client))),
            )
            for client in range(experiment.clients)
        ]
        peaks = _look_on(server, devices, _Watch(path, experiment, watch))
    seconds = time.perf_counter() - started
    return Served(label, path, run_history.metrics(path), run_history.final_state(path).values, peaks, seconds)


@dataclass
class _Running:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


@contextmanager
def _processes(path: Path) -> Iterator[Callable[..., _Running]]:
    """Yield a function that starts `edgefl ...` and writes the output into a log of that name.

    Processes that still run at the end are ended.
    """
    running: list[_Running] = []
    logs: list[IO[bytes]] = []
    environment = {**os.environ, "EDGEFL_NUM_THREADS": "1"}  # the devices share the processors

    def start(name: str, *arguments: str) -> _Running:
        log = path / f"{name}.log"
        logs.append(open(log, "wb"))  # noqa: SIM115 (closed below)
        command = [sys.executable, "-m", "edgefl", *arguments]
        process = subprocess.Popen(command, stdout=logs[-1], stderr=subprocess.STDOUT, env=environment)
        running.append(_Running(name, process, log))
        return running[-1]

    try:
        yield start
    finally:
        for each in running:
            if each.process.poll() is None:
                each.process.terminate()
        for each in running:
            each.process.wait()
        for log in logs:
            log.close()


def _address(path: Path, server: _Running) -> str:
    """Return HOST:PORT once the server listens."""
    until = time.monotonic() + START_S
    while (address := read_endpoint(path)) is None:
        _check(server)
        if time.monotonic() > until:
            raise RunError(f"the server does not listen after {START_S:g} s ({server.last_words()})")
        time.sleep(LOOK_EVERY_S)
    return address


class _Watch:
    """A reader of a run's metrics that reports every round once, with its evaluation if the round has one."""

    def __init__(self, path: Path, experiment: Experiment, tell: Callable[[dict[str, Any]], None]) -> None:
        self._path, self._tell = path, tell
        self._evaluated = experiment.eval_interval, experiment.evaluates_first
        self._told = 0

    def news(self, is_over: bool) -> None:
        for log_record in run_history.metrics(self._path, self._told):
            is_due = is_evaluated(log_record["round"], *self._evaluated)
            if is_due and "evaluation" not in log_record and not is_over:
                break
            self._tell(log_record)
            self._told = log_record["round"]


def _look_on(server: _Running, devices: list[_Running], watch: _Watch) -> list[int | None]:
    """Report rounds to `watch` until all processes have ended. Return the peak memory of every device in bytes."""
    peaks: list[int | None] = [None] * len(devices)
    while any(each.process.poll() is None for each in (server, *devices)):
        for i, device in enumerate(devices):
            peaks[i] = _peak_bytes(device.process.pid) or peaks[i]
        watch.news(False)
        for each in (server, *devices):
            _check(each)
        time.sleep(LOOK_EVERY_S)
    watch.news(True)
    for each in (server, *devices):
        _check(each)
    return peaks


def _check(each: _Running) -> None:
    code = each.process.poll()
    if code:
        raise RunError(f"{each.name} ended with exit code {code} ({each.last_words()}); its log is {each.log}")


def _peak_bytes(pid: int) -> int | None:
    """Return VmHWM of a process in bytes, or None if the process is gone or the system is not Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(found[0]) if found else None
