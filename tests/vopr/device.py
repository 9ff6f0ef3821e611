"""A device as a process of a simulation: what `edgefl client` does, over the virtual network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, Party, ServerAddress
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.participation import take_part
from edgefl.deployment.device.reconnection import delay_s
from edgefl.deployment.device.run_folders import StateDirectory
from tests.vopr.disk import Disk
from tests.vopr.federation import Members
from tests.vopr.fiber import Fiber
from tests.vopr.ids import Ids
from tests.vopr.ledger import Ledger
from tests.vopr.liar import lying
from tests.vopr.network import Network
from tests.vopr.process import Process
from tests.vopr.schedule import Schedule
from tests.vopr.tls import secured

SERVER = ServerAddress("10.1.0.1", 1)
STATE = "state"  # folder of the device on its disk
LARGEST_MODEL = 1 << 20  # bytes
TRAINING_S = 90.0  # most seconds that a device trains for a round


class SimulatedSocket(DeviceSocket):
    """A device's connections over the virtual network."""

    network: Network
    device: DeviceProcess

    def _connect(self) -> Any:
        timeout_s = self._attempts.wait_s(10.0)
        link = self.network.connect(self.device.client, self.device, self.device.fiber, timeout_s)
        return link if self._context is None else secured(link, self._context, SERVER.host, timeout_s)


class DeviceProcess(Process):
    """One life of a device.

    key   its key, or None in a run without keys
    over  called when it ends by itself: with the client and the error, or None after the end of the run
    lies  whether it sometimes sends values that are not finite
    ids   ids of the devices
    tags, sleeps  what the device says of itself (habits.py)
    may_have_lost  returns whether somebody will accept that it has lost what it kept
    """

    tags: Mapping[str, str] = MappingProxyType({})
    sleeps = False
    ids: Ids

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
        may_have_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(f"device {client}", schedule, disk, on_death)
        self.client, self._members, self._key = client, members, key
        self._network, self._ledger, self._over = network, ledger, over
        self._may_have_lost = may_have_lost
        self._stream = schedule.stream(f"{self.name} {disk.home.name}")
        self._make = lying(self._stream) if lies else None
        self._directory: StateDirectory | None = None
        self.fiber = Fiber(self, self._live, self._fail)
        self.fiber.begin()

    def _live(self) -> None:
        """Take part until the run is over."""
        world = self._environment()
        self._directory = StateDirectory(self.disk.home / STATE)
        data = self._members.data(self.client)
        take_part(self._directory, self._profile(), data, world, lambda party: self._talk(party, world), self._make)
        self._end(None)

    def _environment(self) -> DeviceEnvironment:
        random_bytes = self._stream.randbytes
        world = DeviceEnvironment(self._say, self._pause, lambda: self.schedule.now, self._training, random_bytes)
        return world._replace(sleep=self.fiber.sleep)

    def _profile(self) -> DeviceProfile:
        asked = self.ids.asked(self.client)
        return DeviceProfile(asked, self._key, 1.0, LARGEST_MODEL, tags=self.tags, sleeps=self.sleeps)

    def _check_state(self, state: DeviceState) -> None:
        """Compare what the device has read with what the server has acknowledged."""
        if (client := self.ids.of(self.client)) is not None and not self._may_have_lost():
            self._ledger.began(client, state)

    def _talk(self, party: Party, world: DeviceEnvironment) -> str:
        if isinstance(party, Device):
            self._check_state(party._state)
        link = SimulatedSocket(SERVER, party, self._network.device_context, self._stream.randbytes, world)
        link.network, link.device = self._network, self
        return link.run()

    def _say(self, line: str) -> None:
        if self.is_alive:
            self.tells(line)
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
