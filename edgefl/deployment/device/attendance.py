"""The notice that a device gives about itself, and the error by which a server without work ends a connection.

departure.py has the device that leaves its run.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.errors import RemoteProtocolError, RunError
from edgefl.protocol.wire.messages import ComeAgain, DeviceNotice

LEAST_SLEEP_S = 0.2  # seconds that a device waits at least, so that no server makes it connect without a pause


class SentAwayError(RunError):
    """The server has no work for the device, which connects again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server has no work: connecting again in {seconds:.0f} s")
        self.seconds = max(seconds, LEAST_SLEEP_S)


def notice(profile: DeviceProfile, leaves: bool = False) -> Iterator[DeviceNotice]:
    """Yield the notice of a device with tags, or that sleeps or leaves. A server of an earlier version refuses it."""
    if profile.tags or profile.sleeps or leaves:
        yield DeviceNotice(dict(profile.tags), profile.sleeps, leaves)


def sent_away(message: ComeAgain, profile: DeviceProfile) -> RunError | RemoteProtocolError:
    """Return the error that ends the connection: SentAwayError, or RemoteProtocolError if the device does not sleep."""
    if not profile.sleeps:
        return RemoteProtocolError(f"ComeAgain in {message.seconds:.0f} s to a device that does not sleep")
    return SentAwayError(message.seconds)
