"""When a device tries its server again, and when it gives up. Not the connection: device_socket.py, or
supernode/fleet_api.py.

A connection that cannot be made or breaks is tried again after a while that grows, with full jitter. A fault of TLS
that says the same time after time is final, for it is no accident of the way.
"""

from __future__ import annotations

import ssl
from collections import Counter

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.errors import RunError
from edgefl.protocol.trust.tls import fault

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 30.0
TLS_FAULTS = 3  # the same one as often without a success is no accident of the way


def delay_s(failures: int, draw: float) -> float:
    """Seconds before trying again after the n-th failure in a row, from 0: exponential, with full jitter.

    chance  uniform in [0, 1): many devices that lost the same server do not come back all at once
    """
    return draw * min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 30))


class Attempts:
    """The attempts to reach one server.

    server     its name for the user
    world      says, waits and has the clock
    give_up_s  seconds without a success after which it no longer tries; 0: at once; infinite: never
    """

    def __init__(self, server: str, world: DeviceEnvironment, give_up_s: float) -> None:
        self._server, self._world, self._give_up_s = server, world, give_up_s
        self._failures = 0
        self._last = ""  # why the last one failed
        self._alone_since = 0.0  # by the clock
        self._tls_faults: Counter[str] = Counter()  # since the last success

    def succeeded(self) -> None:
        """The server has answered as itself."""
        self._failures = 0
        self._tls_faults.clear()

    def failed(self, error: Exception) -> None:
        """Waits before the next attempt. Raises RunError if there shall be none."""
        if not isinstance(error, ssl.SSLError):
            self._again(str(error))
            return
        wrong = fault(error)
        if wrong is None:
            self._again(f"the TLS connection broke ({error.reason or error})")
            return
        self._tls_faults[wrong] += 1
        if self._tls_faults[wrong] == TLS_FAULTS:
            raise RunError(f"{self._server}: {wrong}") from error
        self._again(wrong)

    def _again(self, why: str) -> None:
        now = self._world.clock()
        if self._failures == 0:
            self._alone_since = now
        if not self._give_up_s:
            raise RunError(f"{self._server}: {why}")
        if now - self._alone_since >= self._give_up_s:
            raise RunError(f"{self._server}: {why}; no connection in {self._give_up_s:g} s, expected one by then")
        if self._failures == 0 or why != self._last:
            self._world.say(f"{self._server}: {why}; trying again")
        self._last = why
        self._world.pause(self._failures)
        self._failures += 1
