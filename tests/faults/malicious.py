"""A server that keeps to the protocol and asks for what no device should give, against a real `edgefl client`.

The device runs with --max-memory and --max-seconds. For each plan two figures are measured:

memory   the peak of the device's resident memory (VmHWM), less that of the same device in the first plan, an honest
         round of a small model: what the plan took beyond the bare process, its libraries and its samples
seconds  from the last byte of the model, or Welcome where none is asked for, until the device has answered or refused

A plan holds if memory stays within --max-memory, and if the seconds stay within --max-seconds and what an
uninterruptible step may add. Also, no refused round is on the device's disk, and the device says the expected sentence.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.cluster import ENVIRONMENT
from edgefl.deployment.device.time_limit import GRACE_S
from edgefl.errors import ProtocolError
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.messages import (
    Challenge,
    Enrol,
    Evaluated,
    Finished,
    Hello,
    Message,
    ModelParts,
    ModelRequest,
    Refused,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import chunks, digest
from tests.faults.hostile_plans import CLASSES, PLANS, SAMPLES, SHAPE, Plan

MEMORY_BYTES, SECONDS = 64_000_000, 5.0
SLACK_S = 1.0  # for the process to end, on a busy machine
LOST_S = 60.0  # a device that says nothing for so long has failed
LOOK_EVERY_S = 0.01
RUN = "hostile"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan. `sentence` says why the device refused, or what it answered.

    `wrong` says why the plan does not hold, or is None.
    """

    plan: str
    sentence: str
    memory_bytes: int
    seconds: float
    exit_code: int
    wrong: str | None


def run(
    root: Path, plans: Sequence[Plan] = PLANS, memory: int = MEMORY_BYTES, seconds: float = SECONDS
) -> Iterator[Outcome]:
    """Yield the outcome of every plan against a device of its own, the honest plan first."""
    root.mkdir(parents=True)
    values = np.random.RandomState(1)
    np.savez(
        root / "data.npz",
        x=values.randint(0, 256, (SAMPLES, *SHAPE)).astype(np.uint8),
        y=np.arange(SAMPLES) % CLASSES,
        classes=CLASSES,
    )
    bare = 0
    for number, plan in enumerate(plans):
        found = _Trial(root, number, plan, memory, seconds).outcome(bare)
        bare = bare or found.memory_bytes
        yield found


class _Trial:
    """One device and its plan."""

    def __init__(self, root: Path, number: int, plan: Plan, memory: int, seconds: float) -> None:
        self._plan, self._memory, self._seconds = plan, memory, seconds
        self._state, self._data = root / f"state-{number}", root / "data.npz"
        self._peak, self._log = root / f"peak-{number}", root / f"log-{number}"
        self._model, self._said = plan.packed(), list(plan.messages())  # made now, so that it costs the device no time
        self._parts, self._polled = plan.parts(), 0
        self._asked_at = self._answered_at = 0.0
        self._refusal = ""
        self._answers: list[Message] = []

    def outcome(self, bare: int) -> Outcome:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            process = self._start(listener.getsockname()[1])
            watch = threading.Thread(target=self._watch, args=(process,))
            watch.start()
            try:
                self._serve(listener)
                code = process.wait(LOST_S)
            finally:
                process.kill()
                watch.join()
        took = (self._answered_at or time.monotonic()) - (self._asked_at or self._answered_at)
        peak = int(self._peak.read_text()) if self._peak.exists() else self._polled
        words = self._log.read_text(errors="replace").splitlines()
        said = self._refusal or (words[-1] if words else "nothing")
        wrong = self._wrong(peak - bare if bare else 0, took, said, code)
        return Outcome(self._plan.name, said, peak - bare, took, code, wrong)

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.metered", str(self._peak), "client"]
        command += ["--server", f"127.0.0.1:{port}", "--state", str(self._state), "--data", str(self._data)]
        command += ["--max-memory", str(self._memory), "--max-seconds", str(self._seconds), "--give-up", "1"]
        with open(self._log, "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT})

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Read the peak while the process runs, because a process that ends itself cannot tell it."""
        while process.poll() is None:
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                self._polled = max([self._polled, *(int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM"))])
            except OSError:
                return
            time.sleep(LOOK_EVERY_S)

    def _serve(self, listener: socket.socket) -> None:
        """Serve two connections: the device asks for the run, then takes part in it."""
        listener.settimeout(LOST_S)
        for _ in range(2):
            link, _ = listener.accept()
            self._talk(link)

    def _talk(self, link: socket.socket) -> None:
        """Serve one connection until the device closes it."""
        connection, out = Connection("server"), queue.SimpleQueue[bytes | None]()
        sender = threading.Thread(target=_send_all, args=(link, out))
        sender.start()
        with link:
            link.settimeout(LOST_S)
            try:
                while data := link.recv(1 << 16):
                    for message in connection.receive(data):
                        for answer in self._answers_to(message):
                            out.put(connection.send(answer))
            except (OSError, ProtocolError) as error:
                self._refusal = self._refusal or f"{type(error).__name__}: {error}"
            finally:
                if self._asked_at:
                    self._answered_at = self._answered_at or time.monotonic()
                out.put(None)
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)  # a sender that waits for room goes on
                sender.join()

    def _answers_to(self, message: Message) -> Iterator[Message]:
        plan, data = self._plan, self._model
        match message:
            case Hello():
                yield Challenge(RUN, bytes(32), b"")
            case Enrol():
                self._asked_at = time.monotonic()
                size = plan.size or len(data)
                found = size, digest(data), "cross-entropy"
                if self._parts:
                    yield ModelParts(self._parts)
                yield Welcome(0, 1, 1, plan.method, plan.options, "float32", plan.shares, *found)
            case ModelRequest():
                yield from chunks(data, message.offset)
                yield from self._said
                self._asked_at = time.monotonic()
            case Trained():
                self._answered_at = time.monotonic()
                yield Verdict(message.round, "accepted", "")
                yield Finished("that was all")
            case Evaluated():
                self._answered_at = time.monotonic()
                yield Finished("that was all")
            case Refused():
                self._answered_at = time.monotonic()
                self._refusal = message.reason

    def _wrong(self, memory: int, seconds: float, said: str, code: int) -> str | None:
        if memory > self._memory:
            return f"{memory} bytes; expected at most {self._memory}"
        if seconds > self._seconds + GRACE_S + SLACK_S:
            return f"{seconds:.1f} s; expected at most {self._seconds + GRACE_S + SLACK_S:g}"
        if "Traceback" in self._log.read_text(errors="replace"):
            return "a traceback; expected a sentence"
        if bool(code) != bool(self._plan.refused) or self._plan.refused not in said:
            return f"exit code {code}, {said!r}; expected {self._plan.refused or 'exit code 0'!r}"
        left = [name for name in ("local", "pending") if any(self._state.glob(f"runs/*/{name}.safetensors"))]
        if self._plan.refused and left != ["local"] * self._plan.kept:
            return f"{', '.join(left)} on the disk after a refused round; expected what was there before"
        return None


def _send_all(link: socket.socket, out: queue.SimpleQueue[bytes | None]) -> None:
    """Send what is in the queue up to None. A device that has gone is not an error."""
    try:
        while (data := out.get()) is not None:
            link.sendall(data)
    except OSError:
        pass
