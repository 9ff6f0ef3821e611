"""A server process and device processes of one run, started, ended and started again as a case of faults wants it.

They are `edgefl serve` and `edgefl client`, as a user starts them. Logs lie in a folder of their own, so that a full
disk or a count of steps does not concern them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment

EDGEFL = ("-m", "edgefl")
ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "EDGEFL_NUM_THREADS": "1",  # the devices share the processors
    "OPENBLAS_NUM_THREADS": "1",
}
LISTENING = re.compile(r"\blistening on .*:(\d+)$", re.MULTILINE)  # what the server prints
LOOK_EVERY_S = 0.02
LIMIT_S = 300.0  # for everything that is waited for
HEARD_S = 1.0  # after the server's end: a device that still runs then has not heard of it


class Life(Protocol):
    """These members of subprocess.Popen are what Process uses."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def send_signal(self, signal: Any, /) -> None: ...

    def wait(self, timeout: float) -> int: ...


class Process:
    """`edgefl ...` in a process that can be started again with the same words. `program` is what Python runs."""

    def __init__(self, name: str, log: Path, arguments: Sequence[str], program: Sequence[str] = EDGEFL) -> None:
        self.name, self.log, self.arguments, self._program = name, log, list(arguments), program
        self.lives = 0
        self.ended_at: float | None = None  # when its end was seen
        self._running: Life | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Begin a life. Its output is added to the log."""
        self.lives += 1
        self.ended_at = None
        self._running = self._launch(environment)

    def _launch(self, environment: Mapping[str, str] | None) -> Life:
        command = [sys.executable, *self._program, *self.arguments]
        everything = {**os.environ, **ENVIRONMENT, **(environment or {})}
        with open(self.log, "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=everything)

    def ended(self) -> int | None:
        """Return the exit code of this life, or None while it lasts."""
        assert self._running is not None
        code = self._running.poll()
        if code is not None and self.ended_at is None:
            self.ended_at = time.monotonic()
        return code

    @property
    def pid(self) -> int:
        """The process id of this life."""
        assert self._running is not None
        return self._running.pid

    def is_stopped(self) -> bool:
        """Return whether the process is stopped, as by SIGSTOP. It needs Linux."""
        assert self._running is not None
        return Path(f"/proc/{self._running.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def peak_mb(self) -> float:
        """Return the largest resident memory so far in MB, or 0 once the process has ended. It needs Linux."""
        assert self._running is not None
        lines = Path(f"/proc/{self._running.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6

    def send(self, signal: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(signal)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired."""
        assert self._running is not None
        return self._running.wait(LIMIT_S)

    def said(self) -> str:
        """Return all of its output so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Cluster:
    """The processes of one run. At the end of the with block, processes that still run are killed.

    place    gets run/, devices/N/ and logs/, where a run that is there already goes on
    shares   the devices' samples, as `write_partitions` wrote them
    serve, client   options beyond what every run needs, which may differ by client
    server_program, client_program  what Python runs in place of `-m edgefl`
    host     where the server listens
    process  the class of the processes
    """

    def __init__(
        self,
        root: Path,
        experiment: Experiment,
        partitions: Path,
        serve: Sequence[str] = (),
        client: Callable[[int], Sequence[str]] = lambda client: (),
        server_program: Sequence[str] = EDGEFL,
        client_program: Sequence[str] = EDGEFL,
        host: str = "127.0.0.1",
        process: type[Process] = Process,
    ) -> None:
        self.run, self.devices_at, self.logs = root / "run", root / "devices", root / "logs"
        self._client_program, self._host, self._process = client_program, host, process
        self.logs.mkdir(parents=True)
        self._partitions, self._client = partitions, client
        if not self.run.exists():
            open_run(self.run, experiment.to_json())
        self._serve = ["serve", "--resume", str(self.run), *serve]
        self.server = process("server", self.logs / "server.log", [*self._serve, "--port", "0"], server_program)
        self.devices: dict[int, Process] = {}
        self.port = 0

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (self.server, *self.devices.values()):
            if process.lives and process.ended() is None:
                process.kill()

    def start_server(self, environment: Mapping[str, str] | None = None, may_fail: bool = False) -> bool:
        """Start the server and wait until it listens. From its first life on it has one port.

        may_fail  return False if it ends before it listens, as it does after SIGKILL in any case
        Raises    RuntimeError with its last words if it ends otherwise.
        """
        self.server.start(environment)
        if self.port:
            return True
        await_(lambda: LISTENING.search(self.server.said()) or self.server.ended() is not None, "the server listens")
        found, code = LISTENING.search(self.server.said()), self.server.ended()
        if found is None and (may_fail or code == -signal.SIGKILL):
            return False
        if found is None:
            raise RuntimeError(f"the server ended with exit code {code} ({_last_words(self.server)})")
        self.port = int(found[1])
        self.server.arguments = [*self._serve, "--port", str(self.port)]
        return True

    def start_device(self, client: int, environment: Mapping[str, str] | None = None) -> None:
        """Start one of the run's own devices, for the first time or again."""
        if client not in self.devices:
            options = "--id", str(client), "--state", str(self.state_of(client)), *self._client(client)
            self.devices[client] = self.device(f"device {client}", partition_file(self._partitions, client), *options)
        self.devices[client].start(environment)

    def device(self, name: str, data: Path, *options: str) -> Process:
        """Return a device that has not been started, and that does not belong to the run yet."""
        words = ["client", "--server", f"{self._host}:{self.port}", "--data", str(data), *options]
        return self._process(name, self.logs / f"{name}.log", words, self._client_program)

    def state_of(self, client: int) -> Path:
        """Return the directory of a device."""
        return self.devices_at / str(client)

    def finish(self, fragile: Process | None = None, limit_s: float = LIMIT_S) -> None:
        """Wait until every process has come to the end of the run, and start killed processes again.

        fragile  a process that may also end with an error, once, and is started again
        Raises   RuntimeError with the last words of a process that failed otherwise, or after limit_s.
        """
        until = time.monotonic() + limit_s
        while not self._is_over(fragile):
            if time.monotonic() > until:
                words = [f"{each.name}: {_last_words(each)}" for each in (self.server, *self.devices.values())]
                raise RuntimeError(f"not over after {limit_s:g} s ({'; '.join(words)})")
            time.sleep(LOOK_EVERY_S)

    def _is_over(self, fragile: Process | None) -> bool:
        for process in (self.server, *self.devices.values()):
            code = process.ended()
            may_fail = process is fragile and process.lives == 1
            if code == -signal.SIGKILL or (code and may_fail):
                process.start()
            elif code:
                raise RuntimeError(f"{process.name} ended with exit code {code} ({_last_words(process)})")
        waiting = [device for device in self.devices.values() if device.ended() is None]
        ended_at = self.server.ended_at
        if waiting and ended_at is not None and time.monotonic() > ended_at + HEARD_S:
            self.server.start()  # for devices that have not heard of the end
        return not waiting and ended_at is not None


def write_partitions(directory: Path, experiment: Experiment, data_dir: str | None = None) -> None:
    """Write every device's samples into a file of its own."""
    federation = assemble(experiment, data_dir)
    directory.mkdir(parents=True, exist_ok=True)
    for client in range(experiment.clients):
        write_partition(partition_file(directory, client), federation, client)


def await_(happened: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait until something in another process has happened. Raises RuntimeError if it has not in time."""
    until = time.monotonic() + limit_s
    while not happened():
        if time.monotonic() > until:
            raise RuntimeError(f"not after {limit_s:g} s: {what}")
        time.sleep(LOOK_EVERY_S)


def _last_words(process: Process) -> str:
    return (process.said().splitlines() or ["it said nothing"])[-1]
