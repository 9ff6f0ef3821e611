"""The agent: one device, and several servers that have their turns. It ends only when it is told to.

In a turn the agent asks a server for its run, and takes part in the run if that is allowed. The turn ends when the run
is over, the connection breaks, another server waits while nothing is asked for, or a condition no longer holds.
Whatever ends the turn, the folder of the run has all that a crash may not lose, and the next turn goes on there.
Nothing that a server does ends the agent.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgefl.deployment.agent.agent_settings import AgentSettings, ServerSettings
from edgefl.deployment.agent.conditional_device import GuardedDevice
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.agent.power_tag import with_power
from edgefl.deployment.agent.sample_file import SampleFile
from edgefl.deployment.device.attendance import SentAwayError
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_protocol import SPOILT_TRIES, Device, SpoiltError, WrongModelError
from edgefl.deployment.device.device_socket import DeviceSocket, LeftError, Party
from edgefl.deployment.device.reconnection import FIRST_DELAY_S
from edgefl.deployment.device.run_folders import StateDirectory, read_over
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.errors import EdgeflError, RunError
from edgefl.experiment.client_dataset import client_of
from edgefl.protocol.trust.tls import device_context
from edgefl.system.log_lines import Alert, LogLine

LOOK_EVERY_S = 0.5  # seconds between looks at the conditions and the turns
SPOILT_S = 3600.0  # seconds until a server that has sent a few spoilt models is asked again, as each costs a download


@dataclass
class Turn:
    """The place of a server in the queue.

    due       time at which the server may have its next turn, by the clock
    failures  number of turns in a row that failed
    said      reason of the last failure
    spoilt    number of spoilt models that the server has sent since its last turn that went well
    """

    server_entry: ServerSettings
    samples: SampleFile
    due: float = 0.0
    failures: int = 0
    said: str = ""
    spoilt: int = 0


class AgentService:
    """The turns of a device's servers.

    watch  monitor of the owner's conditions
    world  functions through which the device reaches clocks, random numbers and its user
    tell   shows the present activity
    after  number of finished runs after which the service ends. None: it never ends
    """

    def __init__(
        self,
        settings: AgentSettings,
        directory: StateDirectory,
        watch: ConditionMonitor,
        world: DeviceEnvironment,
        tell: Callable[[str], None],
        after: int | None = None,
    ) -> None:
        self._settings, self._directory, self._watch, self._world = settings, directory, watch, world
        self._tell, self._left, self._log = tell, after, world.limited_log()
        self._turns = [
            Turn(server_entry, SampleFile(server_entry.data, server_entry.profile.max_memory))
            for server_entry in settings.server_entries
        ]
        self._paused = ""

    def run(self) -> None:
        """Give the servers their turns, one after another."""
        self._prune()
        while self._left is None or self._left > 0:
            turn = min(self._turns, key=lambda each: each.due)
            if self._is_time(turn):
                self._take(turn)
            else:
                time.sleep(min(LOOK_EVERY_S, self._settings.intervals.check_s))

    def _is_time(self, turn: Turn) -> bool:
        why = self._watch.why_wait()
        if why is not None:
            self._pause(why)
            return False
        self._paused = ""
        if turn.due > self._world.clock():
            self._tell(f"waiting for a server{f' ({turn.said})' if turn.said else ''}")
            return False
        return True

    def _pause(self, why: str) -> None:
        if not self._paused:
            self._world.say(LogLine(f"not training: {why}", "paused"))
        self._paused = why
        self._tell(f"not training: {why}")

    def _take(self, turn: Turn) -> None:
        try:
            self._attend(turn)
            turn.failures, turn.said, turn.spoilt = 0, "", 0
        except LeftError as error:
            turn.failures, turn.due = 0, self._world.clock()
            self._log.say(f"{turn.server_entry.server}: leaving: {error}", "turns that ended")
        except SentAwayError as error:
            turn.failures, turn.said, turn.due = 0, str(error), self._world.clock() + error.seconds
            self._log.say(LogLine(f"{turn.server_entry.server}: {error}", "away"), "waits without work")
        except (EdgeflError, OSError) as error:
            turn.spoilt += isinstance(error, WrongModelError) or isinstance(error.__cause__, SpoiltError)
            self._failed(turn, str(error))
        finally:
            turn.samples.forget()

    def _failed(self, turn: Turn, why: str) -> None:
        """Give the server its next turn later, and ever later while its turns fail."""
        if why != turn.said:
            self._log.say(Alert(f"{why}; trying again", "gone"), "failed turns")
        delay = min(self._settings.intervals.poll_s, FIRST_DELAY_S * 2.0 ** min(turn.failures, 30))
        delay = max(delay, SPOILT_S) if turn.spoilt >= SPOILT_TRIES else delay
        turn.said, turn.due = why, self._world.clock() + random.uniform(0.5, 1.0) * delay
        turn.failures += 1

    def _attend(self, turn: Turn) -> None:
        """Take part in one run, as far as it goes now."""
        server_entry = turn.server_entry
        self._tell(f"asking {server_entry.server} for a run")
        profile = server_entry.profile._replace(accepts_data=True)  # an agent's data file changes in daily use
        profile = with_power(profile, self._watch.is_on_mains())
        if profile.client is None:
            profile = profile._replace(client=client_of(server_entry.data))
        run = self._talk(server_entry, RunInquiry(profile.client, profile.key))
        if server_entry.runs and run not in server_entry.runs:
            raise RunError(f"{server_entry.server}: this device does not take part in run {run}")
        state = self._directory.open(run, profile.key, profile.former_key)
        try:
            device = Device(state, profile, turn.samples.newest(), self._world)
            attendance = self._attendance(turn, device)
            reason = self._talk(server_entry, attendance, attendance.look)
            self._over(turn, run, state.path, reason)
        finally:
            state.close()

    def _attendance(self, turn: Turn, device: Device) -> GuardedDevice:
        def tell(doing: str) -> None:
            self._tell(f"{turn.server_entry.server}: {doing}")

        def others(idle_s: float) -> str | None:
            return self._whose_turn(turn) if idle_s >= self._settings.intervals.turn_s else None

        return GuardedDevice(device, self._watch, turn.samples, others, tell, self._world.say, self._world.clock)

    def _whose_turn(self, turn: Turn) -> str | None:
        """Return the reason to leave, if another server waits for its turn, or None if no server waits."""
        now = self._world.clock()
        other = next((each for each in self._turns if each is not turn and each.due <= now), None)
        return (
            None if other is None else f"the server has no request, and it is the turn of {other.server_entry.server}"
        )

    def _talk(self, server_entry: ServerSettings, party: Party, look: Callable[[], None] | None = None) -> str:
        context = device_context(*server_entry.tls_files) if server_entry.uses_tls else None
        every_s = min(LOOK_EVERY_S, self._settings.intervals.check_s)
        return DeviceSocket(
            server_entry.server, party, context, secrets.token_bytes, self._world, 0, look, every_s
        ).run()

    def _over(self, turn: Turn, run: str, folder: Path, reason: str) -> None:
        """Note that the run is over. Its server may say so again, and is asked for another run from time to time."""
        turn.due = self._world.clock() + self._settings.intervals.poll_s
        before = read_over(folder)
        if before is not None and before.reason == reason:
            return
        self._directory.over(folder, run, reason)
        self._world.say(LogLine(f"{turn.server_entry.server}: run {run} is over: {reason}", "over"))
        turn.due = self._world.clock()
        if self._left is not None:
            self._left -= 1
        self._prune()

    def _prune(self) -> None:
        """Remove files of finished runs. Files that cannot be removed stay, and a line for the user names them."""
        keep = self._settings.keep_runs
        try:
            found = self._directory.prune(keep)
        except (RunError, OSError) as error:
            self._log.say(Alert(f"{error}; nothing was removed"), "runs that cannot be removed")
            return
        for removed in found:
            self._world.say(
                f"run {removed.over.run} is over: removed its {removed.size_bytes} bytes (keep_runs {keep})"
            )
