"""A device as a process of a simulation: what `edgefl client` does, over the virtual network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bench.vopr.disk import Disk
from bench.vopr.federation import Members
from bench.vopr.fiber import Fiber
from bench.vopr.ledger import Ledger
from bench.vopr.liar import lying
from bench.vopr.network import Network
from bench.vopr.process import Process
from bench.vopr.schedule import Schedule
from edgefl.deployment.device.device_environment import DeviceEnvironment, durably
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, Party, ServerAddress
from edgefl.deployment.device.reconnection import delay_s
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.device.run_query import RunInquiry

SERVER = ServerAddress("10.1.0.1", 1)
LARGEST_MODEL = 1 << 20  # bytes
TRAINING_S = 90.0  # most seconds that a device trains for a round


class SimulatedSocket(DeviceSocket):
    """A device's connections over the virtual network."""

    network: Network
    device: DeviceProcess

    def _connect(self) -> Any:
        timeout_s = self._attempts.wait_s(10.0)
        return self.network.connect(self.device.client, self.device, self.device.fiber, timeout_s)


class DeviceProcess(Process):
    """One life of a device.

    key   its key, or None in a run without keys
    over  called when it ends by itself: with the client and the error, or None after the end of the run
    lies  whether it sometimes sends values that are not finite
    """

    def __init__(
        self,
        client: int,
        schedule: Schedule,
        disk: Disk,
        on_death: Callable[[Process, bool], None],
        members: Members,
        key: bytes | None,
        network: Network,
        ledger: Ledger,
        over: Callable[[int, Exception | None], None],
        lies: bool = False,
    ) -> None:
        super().__init__(f"device {client}", schedule, disk, on_death)
        self.client, self._members, self._key = client, members, key
        self._network, self._ledger, self._over = network, ledger, over
        self._stream = schedule.stream(f"{self.name} {disk.home.name}")
        self._make = lying(self._stream) if lies else None
        self._directory: StateDirectory | None = None
        self.fiber = Fiber(self, self._live, self._fail)
        self.fiber.begin()

    def _live(self) -> None:
        """Take part until the run is over."""
        world = DeviceEnvironment(
            self._say, self._pause, lambda: self.schedule.now, self._training, self._stream.randbytes
        )
        profile = DeviceProfile(self.client, self._key, 1.0, LARGEST_MODEL)
        self._directory = directory = StateDirectory(self.disk.home)
        run = self._talk(RunInquiry(profile.client, profile.key), world)
        state = durably(lambda: directory.open(run, profile.key), directory.path, world)
        self._ledger.began(self.client, state)
        reason = self._talk(Device(state, profile, self._members.data(self.client), world, self._make), world)
        durably(lambda: directory.over(state.path, run, reason), state.path, world)
        self._end(None)

    def _talk(self, party: Party, world: DeviceEnvironment) -> str:
        link = SimulatedSocket(SERVER, party, None, self._stream.randbytes, world)
        link.network, link.device = self._network, self
        return link.run()

    def _say(self, line: str) -> None:
        if self.is_alive:
            self.schedule.note(f"{self.name}: {line}")

    def _pause(self, failures: int) -> None:
        self.fiber.sleep(delay_s(failures, self._stream.random()))

    @contextmanager
    def _training(self, what: str) -> Iterator[None]:
        self.fiber.sleep(self._stream.random() * TRAINING_S)
        yield

    def _fail(self, error: Exception) -> None:
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self.schedule.note(f"{self.name} ends: {error!r}")
        self._close()
        self._over(self.client, error)

    def dispose(self) -> None:
        """Unwind the code of this life, and let go of its directory."""
        self.fiber.end()
        self._close()

    def _close(self) -> None:
        if self._directory is not None:
            with suppress(OSError):
                self._directory.close()
