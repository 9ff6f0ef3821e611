"""Kills a device with SIGKILL at every durable step, starts it again, and compares its directory at the end.

Run as a program by test_device_crash.py, in a process that trains nothing itself: it forks a child for each life of a
device, so that a life costs no start of Python. A step is a message that is about to be handled or sent, or a file
operation in the device's directory that is about to happen: opening to write, renaming, removing, syncing.

    python device_crash.py DIR    prints a JSON object: the steps, the signal that ended each first life, and the steps
                                  after which the end was another
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import read_partition, write_partition
from edgefl.protocol.wire import messages
from tests.deployment.device.device_cases import ANYBODY, EXPERIMENT, METHODS, scripted, world
from tests.deployment.device.device_server import ScriptedServer, converse

ROUNDS = [1, 2]
OUTCOMES = {1: "accepted", 2: "refused"}  # so that both ends of a pending round are killed
CHANGES = {"os.rename", "os.remove"}


class Steps:
    """Counts the steps of one life, and ends it at one of them."""

    def __init__(self, directory: Path, deadly: int | None) -> None:
        self.names: list[str] = []
        self._deadly, self._directory = deadly, str(directory)
        self._sync = os.fsync

    def watch(self) -> None:
        """Count file operations from here on."""
        sys.addaudithook(self._hear)
        os.fsync = self._fsync  # raises no audit event

    def take(self, name: str) -> None:
        """The step is about to happen."""
        if len(self.names) == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        self.names.append(name)

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        changes = event in CHANGES or (
            event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if changes and str(details[0]).startswith(self._directory):
            self.take(f"{event} {Path(str(details[0])).name}")

    def _fsync(self, handle: int) -> None:
        self.take("fsync")
        self._sync(handle)


class StoredServer(ScriptedServer):
    """Remembers what it has judged over its own death: it dies with the device."""

    def use(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        for file in directory.glob("[0-9]*"):
            reply = messages.decode(messages.NUMBERS[messages.Trained], file.read_bytes())
            assert isinstance(reply, messages.Trained)
            self.replies[reply.round] = reply

    def judged(self) -> None:
        for round, reply in self.replies.items():
            written = self.directory / f"new{round}"
            written.write_bytes(messages.encode(reply))
            written.rename(self.directory / str(round))


def live(root: Path, server: StoredServer, data: Data, deadly: int | None = None) -> int:
    """Run one life of the directory's device in a child.

    Return the signal that ended it, or 0 if it came to its end.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{root.name}: exit {os.WEXITSTATUS(status)}"
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    try:
        steps = Steps(root / "device", deadly)
        root.mkdir(exist_ok=True)
        server.use(root / "server")
        steps.watch()
        device = Device(DeviceState(root / "device"), ANYBODY, data, world())
        converse(device, server, steps.take)
        assert device.finished is not None
        (root / "steps.json").write_text(json.dumps(steps.names))
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def content(root: Path) -> dict[str, bytes]:
    found = sorted((root / "device").iterdir())
    return {file.name: file.read_bytes() for file in found if file.name != "identity.json"}  # which process it is of


def main(directory: Path) -> None:
    federation = assemble(EXPERIMENT)
    write_partition(directory / "data.npz", federation, 0)
    data = Data(*read_partition(directory / "data.npz"))
    plain = scripted(federation, METHODS["fedspu-es"], ROUNDS)
    server = StoredServer(plain.welcome, plain.model, plain.script, plain.evaluate, outcomes=OUTCOMES)
    undisturbed = directory / "undisturbed"
    assert live(undisturbed, server, data) == 0
    expected, steps = content(undisturbed), json.loads((undisturbed / "steps.json").read_text())
    signals, different = [], []
    for number, name in enumerate(steps):
        root = directory / f"killed{number}"
        signals.append(live(root, server, data, number))
        live(root, server, data, number)  # and again while it recovers, if that takes as many steps
        assert live(root, server, data) == 0
        if content(root) != expected:
            different.append(name)
    print(json.dumps({"steps": steps, "signals": signals, "different": different}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
