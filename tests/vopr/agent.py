"""An agent as a process of a simulation: what `edgefl agent` does over the virtual network, under its owner's rules.

It has two servers, of which the second one never answers, and trains on mains and at most hours of the day.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from edgefl.deployment.agent import machine_status, service
from edgefl.deployment.agent.agent_settings import AgentSettings, PollingIntervals, ServerSettings
from edgefl.deployment.agent.conditional_device import GuardedDevice
from edgefl.deployment.agent.conditions import Conditions, Hours
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.agent.service import AgentService
from edgefl.deployment.device.device_socket import Party, ServerAddress
from edgefl.deployment.device.run_folders import StateDirectory, folders, read_over
from edgefl.errors import RunError
from tests.vopr.device import SERVER, STATE, DeviceProcess, SimulatedSocket
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.schedule import Schedule

SILENT = ServerAddress("10.1.0.2", 1)
FORBIDDEN = datetime.time(8, 5), datetime.time(8, 15)  # hours without training. A simulation begins at 08:00
ALLOWED = Hours.parse("08:15-08:05")
CONDITIONS = Conditions(charge=math.inf, hours=(ALLOWED,))
INTERVALS = PollingIntervals(check_s=5.0, settle_s=30.0, poll_s=60.0, turn_s=60.0)
remembered_power = lru_cache(machine_status.power)  # forgotten whenever the power of a machine changes
CONNECT_S = 1.0  # seconds after which the silent server refuses


class Machine:
    """The mains and the battery of a machine, as files below `root`."""

    def __init__(self, root: Path, schedule: Schedule) -> None:
        self.root, self._schedule, self._unplugged_s = root, schedule, [-math.inf, -math.inf]
        for name, kind in (("AC", "Mains"), ("BAT", "Battery")):
            folder = root / "sys/class/power_supply" / name
            folder.mkdir(parents=True)
            (folder / "type").write_text(f"{kind}\n")
        self._put(1)

    def unplug(self, seconds: float) -> None:
        """Take the machine off the mains for so many seconds."""
        now = self._schedule.now
        begin = now if self._unplugged_s[1] < now else self._unplugged_s[0]
        self._unplugged_s = [begin, max(self._unplugged_s[1], now + seconds)]
        self._put(0)
        self._schedule.after(seconds, self._plug)

    def _plug(self) -> None:
        if self._schedule.now >= self._unplugged_s[1]:
            self._put(1)

    def _put(self, online: int) -> None:
        (self.root / "sys/class/power_supply/AC/online").write_text(f"{online}\n")
        remembered_power.cache_clear()

    def is_unplugged(self, since_s: float) -> bool:
        """Return whether it has been off the mains for at least so many seconds."""
        begin, end = self._unplugged_s
        return begin + since_s < self._schedule.now < end


class SimulatedService(AgentService):
    """The turns of an agent, whose conversations go over the virtual network."""

    process: AgentProcess

    def _talk(self, server_entry: ServerSettings, party: Party, look: Callable[[], None] | None = None) -> str:
        return self.process.converse(server_entry, party, look)


class AgentProcess(DeviceProcess):
    """One life of an agent.

    machine  mains and battery
    samples  file of the device's samples
    reads    called with each line for the owner
    """

    machine: Machine
    samples: Path
    reads: Callable[[str], None]

    def _live(self) -> None:
        """Take part until the record says that the run is over."""
        state = self.disk.home / STATE
        self._directory = StateDirectory(state)
        if not any(read_over(folder) for folder in folders(state)):
            settings = AgentSettings(state, self._entries(), CONDITIONS, INTERVALS)
            world = self._environment()._replace(within=self._within)
            service = SimulatedService(settings, self._directory, self._monitor(), world, lambda doing: None, after=1)
            service.process = self
            service.run()
        self._end(None)

    def _entries(self) -> tuple[ServerSettings, ...]:
        profile, no_tls = self._profile(), (None, None, None)
        return tuple(ServerSettings(at, profile, self.samples, (), False, no_tls, True) for at in (SILENT, SERVER))

    def _monitor(self) -> ConditionMonitor:
        root, times = self.machine.root, (INTERVALS.check_s, INTERVALS.settle_s)
        return ConditionMonitor(CONDITIONS, root, lambda: self.schedule.now, lambda: _hour(time.time()), *times)

    def converse(self, entry: ServerSettings, party: Party, look: Callable[[], None] | None) -> str:
        """Let a party talk to a server for a turn."""
        if entry.server == SILENT:
            self.fiber.sleep(CONNECT_S)
            raise RunError(f"{SILENT}: Connection refused")
        if isinstance(party, GuardedDevice):
            self._check_state(party._device._state)
        every_s = min(service.LOOK_EVERY_S, INTERVALS.check_s)
        context, world = self._network.device_context, self._environment()
        link = SimulatedSocket(SERVER, party, context, self._stream.randbytes, world, 0, look, every_s)
        link.network, link.device = self._network, self
        return link.run()

    def sleep(self, seconds: float) -> None:
        self.fiber.sleep(seconds)

    def _say(self, line: str) -> None:
        super()._say(line)
        self.reads(line)

    @contextmanager
    def _within(self, what: str) -> Iterator[None]:
        """Check that the owner allows the work that begins. A reading may be a few seconds old."""
        since_s = INTERVALS.check_s + 1
        if self.machine.is_unplugged(since_s):
            raise BrokenPromiseError(f"{self.name} begins {what} off the mains")
        times = [_hour(time.time() - ago_s) for ago_s in (0.0, since_s)]
        is_forbidden = all(FORBIDDEN[0] <= each < FORBIDDEN[1] for each in times)  # counted without code of the agent
        if is_forbidden and self.schedule.now > self.disk.leapt_at + since_s:
            raise BrokenPromiseError(f"{self.name} begins {what} at {times[0]:%H:%M}; its owner allows {ALLOWED}")
        with self._training(what):
            yield


def _hour(seconds: float) -> datetime.time:
    """Return the time of the day of these seconds since 1970."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).time()
