"""A device that leaves its run: it says so to the server, and neither trains nor sends anything else.

The device needs no samples, and its files stay. A reply without a verdict stays with them. The device in the run is in
device_protocol.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.deployment.device.attendance import notice
from edgefl.deployment.device.device_environment import DeviceEnvironment, durably
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_state import DeviceState, Membership
from edgefl.deployment.device.enrol_request import enrol_request
from edgefl.errors import RequestError, RunError
from edgefl.methods.rounds.provenance import provenance
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import (
    PROTOCOL,
    Challenge,
    Finished,
    Hello,
    Message,
    ModelChunk,
    ModelRequest,
    Refused,
    Welcome,
)


class DepartingDevice:
    """The device, for DeviceSocket. `finished` is the server's answer that the device has left.

    Raises  RequestError if the device has not enrolled in the run.
    """

    is_waiting, frozen_bytes = False, 0

    def __init__(self, state: DeviceState, profile: DeviceProfile, world: DeviceEnvironment) -> None:
        self._enrolment, self._counts = _enrolment(state)
        self._state, self._profile, self._world, self._nonce = state, profile, world, b""
        self._has_begun = False
        self.finished: str | None = None

    @property
    def client(self) -> int:
        return self._enrolment.welcome.client

    def hello(self, nonce: bytes) -> Hello:
        """Return the first message of a connection. `nonce` is 32 random bytes, new for each connection."""
        self._nonce = nonce = handshake.marked(nonce, self._profile.key)
        if not self._has_begun:
            durably(lambda: self._state.begin(self._world.random_bytes), self._state.path, self._world)
            self._has_begun = True
        return Hello(PROTOCOL, self._enrolment.run, self.client, self._nonce, provenance())

    def handle(self, message: Message) -> Iterator[Message]:
        """Yield the messages to send in answer. Requests of the run are passed over.

        Raises  AuthError if the server does not know the device's key. RunError if it serves another run, or refuses.
        """
        match message:
            case Challenge():
                how = self._nonce, False, False
                yield enrol_request(message, self._state, self._profile, self._counts, *how)
            case Welcome():
                durably(self._state.heard, self._state.path, self._world)
                if self._state.has_model():
                    yield from notice(self._profile, leaves=True)
                else:  # the notice comes after the model, of which the last byte is enough here
                    yield ModelRequest(message.model_bytes - 1)
            case ModelChunk():
                yield from notice(self._profile, leaves=True)
            case Finished():
                self.finished = message.reason
            case Refused():
                raise RunError(f"the server refuses: {message.reason}")


def _enrolment(state: DeviceState) -> tuple[Membership, tuple[int, ...]]:
    """Return the membership of the device in the run, and the numbers of samples that it declared."""
    found = state.enrolment
    if found is None:
        raise RequestError(f"{state.path} has not enrolled in run {state.run}; expected the --state of a device there")
    if found.examples is None:
        raise RequestError(f"{state.path} keeps no number of samples; start the device once without --leave before")
    return found, found.examples
