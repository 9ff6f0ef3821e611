"""The request of a device to take part in a run, after both sides have proven that they know the device's key."""

from __future__ import annotations

from collections.abc import Sequence

from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_state import DeviceState
from edgefl.errors import RunError
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import PARTS, Challenge, Enrol


def enrol_request(
    challenge: Challenge, state: DeviceState, profile: DeviceProfile, counts: Sequence[int], nonce: bytes,
    is_vouched: bool, takes_parts: bool,
) -> Enrol:  # fmt: skip
    """Return the request, with a proof of who the device is.

    counts       number of samples, or numbers in each part
    nonce        nonce of the device's Hello
    is_vouched   whether the carrier of the messages vouches for the server, which need not prove itself
    takes_parts  whether the device can take the model in parts
    Raises       AuthError if the server does not know the device's key. RunError if it serves another run.
    """
    enrolment, identity = state.enrolment, state.identity
    assert identity is not None  # hello has begun
    secret, is_new = bytes.fromhex(identity.secret), enrolment is None and profile.key is None
    key = None if is_new else profile.key or secret
    client = profile.client if enrolment is None else enrolment.welcome.client
    expected = state.run if enrolment is None else enrolment.run
    if expected and challenge.run != expected:
        raise RunError(f"the server serves run {challenge.run} now; expected run {expected}")
    meeting = challenge.run, -1 if client is None else client, nonce, challenge.nonce
    if not is_vouched:
        handshake.check(handshake.proof(key, "server", *meeting), challenge.proof, "the server")
    model = PARTS if takes_parts else b""
    if enrolment is not None and state.has_model():
        model = enrolment.welcome.model_digest
    return Enrol(
        proof=handshake.proof(key, "device", *meeting),
        capacity=profile.capacity,
        model=model,
        pending=state.pending,
        secret=secret if is_new else b"",
        round=state.round,
        life=bytes.fromhex(identity.life),
        before=bytes.fromhex(identity.before),
        examples=list(counts),
    )
