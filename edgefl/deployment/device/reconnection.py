"""The times at which a device tries its server again, and the time at which it gives up. The connection is
device_socket.py's, or supernode/fleet_api.py's.

A connection that cannot be made or breaks is tried again after a while that grows, with full jitter. Only progress
makes the while short again: a verdict on a reply, a whole model, a finished run, or a welcome connection that has
lasted. A Welcome is no progress, because a server that welcomes and hangs up would be asked without a pause. A fault of
TLS that says the same time after time is final, for it is no accident of the way.
"""

from __future__ import annotations

import math
import ssl
from collections import Counter

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.errors import RunError
from edgefl.protocol.trust.tls import fault
from edgefl.system.log_lines import Alert

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 30.0
MOST_DOUBLINGS = 30  # of the first delay, beyond which it is the longest anyway
LEAST_WAIT_S = 0.05  # for one answer, so that an attempt just before the end is one
TLS_FAULTS = 3  # the same one as often without a success is no accident of the way
STEADY_S = 60.0  # a welcome connection that has lasted so long is progress, though the server asked for nothing


def delay_s(failures: int, draw: float) -> float:
    """Seconds before trying again after the n-th failure in a row, from 0: exponential, with full jitter.

    chance  uniform in [0, 1): many devices that lost the same server do not come back all at once
    """
    return draw * min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 30))


class Attempts:
    """The attempts to reach one server.

    server     its name for the user
    world      says, waits and has the clock
    give_up_s  seconds without progress after which it no longer tries, not counting those in which it was welcome; 0:
               at once; infinite: never
    """

    def __init__(self, server: str, world: DeviceEnvironment, give_up_s: float) -> None:
        self._server, self._world, self._give_up_s = server, world, give_up_s
        self._log = world.limited_log()
        self._failures = 0
        self._is_trying = False  # since the last success
        self._last = ""  # why the last one failed
        self._alone_since = 0.0  # by the clock
        self._welcome_since: float | None = None  # by the clock; None: not welcome now
        self._welcomes = 0  # since the last progress
        self._tls_faults: Counter[str] = Counter()  # since the last Welcome

    def begins(self) -> None:
        """A connection is tried. The time without a success counts from the first attempt on."""
        if not self._is_trying:
            self._is_trying, self._alone_since = True, self._world.clock()

    def wait_s(self, longest_s: float) -> float:
        """Seconds that an attempt may wait for the server, which are at most `longest_s` and end when it gives up."""
        if not self._give_up_s:
            return longest_s
        left_s = self._alone_since + self._give_up_s - self._world.clock()
        return min(longest_s, max(left_s, LEAST_WAIT_S))

    def next_wait_s(self, longest_s: float) -> float:
        """The wait in seconds like `wait_s`, within an attempt. Raises TimeoutError if the time to give up has come
        meanwhile.
        """
        if self._give_up_s and self._world.clock() - self._alone_since > self._give_up_s:
            raise TimeoutError("the server has not let this device in")
        return self.wait_s(longest_s)

    @property
    def patience_s(self) -> float | None:
        """Seconds of silence after which a download counts as broken; None: any number."""
        return self._give_up_s if 0 < self._give_up_s < math.inf else None

    def welcomed(self) -> bool:
        """The server has answered as itself. True if the user should hear of it: not after each of many Welcomes."""
        self._welcome_since = self._world.clock()
        self._welcomes += 1
        self._tls_faults.clear()
        return self._welcomes == 1

    def progressed(self) -> None:
        """The server and the device have got on with the run."""
        self._failures = self._welcomes = 0
        self._is_trying = False
        self._tls_faults.clear()

    def failed(self, error: Exception) -> None:
        """Waits before the next attempt. Raises RunError if there shall be none."""
        self._parted()
        if not isinstance(error, ssl.SSLError):
            self._again(str(error), error)
            return
        wrong = fault(error)
        if wrong is None:
            self._again(f"the TLS connection broke ({error.reason or error})", error)
            return
        self._tls_faults[wrong] += 1
        if self._tls_faults[wrong] == TLS_FAULTS:
            raise RunError(f"{self._server}: {wrong}") from error
        self._again(wrong, error)

    def _parted(self) -> None:
        """Takes the time in which the device was welcome out of the time that it has been alone."""
        if self._welcome_since is None:
            self._welcomes = 0  # the server was away in between, so that the next Welcome is news
            return
        welcome_s, self._welcome_since = self._world.clock() - self._welcome_since, None
        if welcome_s >= STEADY_S:
            self.progressed()
        else:
            self._alone_since += welcome_s

    def _again(self, why: str, error: Exception) -> None:
        now = self._world.clock()
        self.begins()
        if not self._give_up_s:
            raise RunError(f"{self._server}: {why}") from error
        if now - self._alone_since >= self._give_up_s:
            raise RunError(f"{self._server}: {why}; {self._missed()}") from error
        if self._failures == 0 or why != self._last:
            self._log.say(Alert(f"{self._server}: {why}; trying again", "gone"), "lost connections")
        self._last = why
        self._world.pause(min(self._failures, self._longest_pause(self._alone_since + self._give_up_s - now)))
        self._failures += 1

    def _missed(self) -> str:
        """What did not happen in `give_up_s`."""
        if self._welcomes:
            return (
                f"it has welcomed this device {self._welcomes} times in a row and asked for nothing; expected a round,"
                f" a model or the end of the run within {self._give_up_s:g} s (--give-up)"
            )
        return f"no connection in {self._give_up_s:g} s, expected one by then"

    def _longest_pause(self, left_s: float) -> int:
        """The number of failures after which a pause still ends within these seconds."""
        return int(math.log2(max(left_s / FIRST_DELAY_S, 1.0))) if left_s < LONGEST_DELAY_S else MOST_DOUBLINGS
