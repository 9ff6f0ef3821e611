"""The times at which a device tries its server again, and the time at which it gives up. device_socket.py and
supernode/fleet_api.py have the connections.

If a connection breaks or cannot be made, the device tries again after a pause that grows, with full jitter. Only
progress makes the pause short again: a verdict on a reply, a whole model, a finished run, or a welcome connection that
has lasted. A Welcome is not progress, because a server that welcomes and hangs up would be asked without a pause. A
fault of TLS that repeats itself is final, because it is not an accident of the network.
"""

from __future__ import annotations

import math
import ssl
from collections import Counter

from edgefl.deployment.device.attendance import SentAwayError
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.errors import RunError
from edgefl.protocol.trust.tls import fault
from edgefl.system.log_lines import Alert, LogLine

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 30.0
MOST_DOUBLINGS = 30  # doublings of the first delay, after which the longest delay is reached anyway
LEAST_WAIT_S = 0.05  # seconds for an answer at least, so that an attempt just before the end can succeed
TLS_FAULTS = 3  # equal faults without a success, which are not an accident of the network
STEADY_S = 60.0  # a welcome connection that has lasted so many seconds is progress, even without a request


def delay_s(failures: int, draw: float) -> float:
    """Return the seconds before another attempt after the n-th failure in a row, from 0: exponential, with full jitter.

    draw    uniform in [0, 1), so that many devices that lost a server do not come back all at once
    """
    return draw * min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 30))


class Attempts:
    """The attempts to reach one server.

    server     its name for the user
    world      functions that say, pause and tell the time
    give_up_s  seconds without progress after which it no longer tries. Seconds of a welcome connection do not count. 0:
               it gives up at once. Infinite: it never gives up
    """

    def __init__(self, server: str, world: DeviceEnvironment, give_up_s: float) -> None:
        self._server, self._world, self._give_up_s = server, world, give_up_s
        self._log = world.limited_log()
        self._failures = 0
        self._is_trying = False  # whether there was an attempt since the last success
        self._last = ""  # why the last attempt failed
        self._alone_since = 0.0  # time of the first attempt since the last success, by the clock
        self._welcome_since: float | None = None  # time of the present Welcome by the clock, or None
        self._welcomes = 0  # number of Welcomes since the last progress
        self._tls_faults: Counter[str] = Counter()  # faults of TLS since the last Welcome

    def begins(self) -> None:
        """Begin an attempt. The time without a success counts from the first attempt on."""
        if not self._is_trying:
            self._is_trying, self._alone_since = True, self._world.clock()

    def wait_s(self, longest_s: float) -> float:
        """Return the seconds for which an attempt may wait: at most `longest_s`, and not beyond the time to give up."""
        if not self._give_up_s:
            return longest_s
        left_s = self._alone_since + self._give_up_s - self._world.clock()
        return min(longest_s, max(left_s, LEAST_WAIT_S))

    def next_wait_s(self, longest_s: float) -> float:
        """Return the seconds of a further wait within an attempt, like `wait_s`. Raises TimeoutError if the time to
        give up has come meanwhile.
        """
        if self._give_up_s and self._world.clock() - self._alone_since > self._give_up_s:
            raise TimeoutError("the server has not let this device in")
        return self.wait_s(longest_s)

    @property
    def patience_s(self) -> float | None:
        """The seconds of silence after which a download counts as broken, or None for no limit."""
        return self._give_up_s if 0 < self._give_up_s < math.inf else None

    def welcomed(self) -> bool:
        """Note that the server has answered. Return whether this is the first Welcome since progress, and so news."""
        self._welcome_since = self._world.clock()
        self._welcomes += 1
        self._tls_faults.clear()
        return self._welcomes == 1

    def progressed(self) -> None:
        """Note that the server and the device have made progress with the run."""
        self._failures = self._welcomes = 0
        self._is_trying = False
        self._tls_faults.clear()

    def sent_away(self, error: SentAwayError) -> None:
        """Wait for the time that the server has named. The time does not count towards the time to give up."""
        self._welcome_since = None
        self.progressed()
        self._log.say(LogLine(f"{self._server}: {error}", "away"), "waits without work")
        self._world.sleep(error.seconds)

    def failed(self, error: Exception) -> None:
        """Wait before the next attempt. Raises RunError if there shall be no further attempt."""
        self._parted()
        if not isinstance(error, ssl.SSLError):
            self._again(_words(error), error)
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
        """Subtract the time of a welcome connection from the time without a success."""
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
        """Say what did not happen in `give_up_s` seconds."""
        if self._welcomes:
            return (
                f"it has welcomed this device {self._welcomes} times in a row without a request; expected a round,"
                f" a model or the end of the run within {self._give_up_s:g} s (--give-up)"
            )
        return f"expected a connection within {self._give_up_s:g} s (--give-up)"

    def _longest_pause(self, left_s: float) -> int:
        """Return the number of failures after which a pause still ends within these seconds."""
        return int(math.log2(max(left_s / FIRST_DELAY_S, 1.0))) if left_s < LONGEST_DELAY_S else MOST_DOUBLINGS


def _words(error: Exception) -> str:
    """Return an error of a connection without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
