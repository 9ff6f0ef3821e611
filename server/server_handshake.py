"""The handshake from the server's side: it checks what a device says of itself against the run.

The messages may come over connections of our own (peer.py) or in envelopes (relay.py). The module knows no connections
and no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgefl.errors import AuthError
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Enrol, Hello, ModelPart, RosterPart, SecureOffer, Welcome
from edgefl.protocol.wire.packed_model import PackedModel
from edgefl.server.events import Claim, DeviceJoined


@dataclass(frozen=True)
class EnrolmentTerms:
    """The offer to every device of a run, and the rule who may take part.

    keys     valid keys of every client, or None in a run without keys
    welcome  returns the Welcome for an enrolled client
    model    packed initial model
    parts    parts of the model that a device may hold already (wire/model_parts.py)
    secure   messages by which the run says that it sums replies by secure aggregation. Empty: it does not
    nonce    returns 32 random bytes
    training_samples  returns the number of training samples among the samples that a device declares (Enrol.examples)
    """

    run: str
    clients: int
    keys: Mapping[int, Sequence[bytes]] | None
    welcome: Callable[[int], Welcome]
    model: bytes | PackedModel
    nonce: Callable[[], bytes]
    training_samples: Callable[[Sequence[int]], int]
    parts: Sequence[ModelPart] = field(default=(), kw_only=True)
    secure: Sequence[RosterPart | SecureOffer] = field(default=(), kw_only=True)


class ServerHandshake:
    """The handshake with one device. `secret_of` returns the secret of an enrolled client's device, or None.

    Raises  AuthError, from every method, if the device may not take part.
    """

    def __init__(self, offer: EnrolmentTerms, secret_of: Callable[[int], bytes | None]) -> None:
        self._offer, self._secret_of = offer, secret_of
        self._nonce = offer.nonce()
        self._hello: Hello | None = None

    @property
    def call(self) -> Challenge:
        """The Challenge for a device that has not said anything yet. It proves nothing, as the device is not known."""
        return Challenge(self._offer.run, self._nonce, b"")

    @property
    def is_renewed(self) -> bool:
        """True if the client has two keys, and its device has the newer key."""
        keys, hello = self._offer.keys, self._hello
        if keys is None or hello is None or hello.client is None or len(keys[hello.client]) == 1:
            return False
        return self._key(hello) == keys[hello.client][-1]

    def challenge(self, hello: Hello) -> Challenge:
        """Return the answer to a device's Hello."""
        self.hear(hello)
        return Challenge(self._offer.run, self._nonce, self._proof("server"))

    def hear(self, hello: Hello) -> None:
        """Take in a device's Hello."""
        offer = self._offer
        if hello.protocol != PROTOCOL:
            older = "device" if hello.protocol < PROTOCOL else "server"
            raise AuthError(f"protocol version {hello.protocol}; expected {PROTOCOL}: update edgefl on the {older}")
        if hello.run not in ("", offer.run):
            raise AuthError(f"run {hello.run}; expected run {offer.run}, which this server serves")
        if hello.client is not None and hello.client >= offer.clients:
            raise AuthError(f"client {hello.client}; expected an id below {offer.clients}")
        self._hello = hello

    def joined(self, request: Enrol, link: int) -> DeviceJoined:
        """Check the proof of a device, and return what the coordinator hears of it."""
        hello = self._hello
        assert hello is not None  # Enrol comes only after Hello
        handshake.check(self._proof("device"), request.proof, f"client {hello.client}")
        if self._key(hello) is None and len(request.secret) != handshake.KEY_BYTES:
            raise AuthError(
                f"secret of {len(request.secret)} bytes; expected {handshake.KEY_BYTES} in a run without keys"
            )
        return DeviceJoined(
            link,
            hello.client,
            request.capacity,
            request.pending,
            secret=request.secret,
            provenance=hello.software,
            claim=Claim(request.round, request.pending, request.life, request.before, is_new=not hello.run),
            examples=self._offer.training_samples(request.examples),
            key=None if self._offer.keys is None else self._key(hello),
        )

    def _proof(self, role: handshake.Role) -> bytes:
        """Return the expected proof of `role`, with the device's key or secret, or b"" while the device has neither."""
        hello = self._hello
        assert hello is not None
        key = self._key(hello)
        client = -1 if hello.client is None else hello.client
        return handshake.proof(key, role, self._offer.run, client, hello.nonce, self._nonce)

    def _key(self, hello: Hello) -> bytes | None:
        """Return the key or secret that this device has to prove, or None while it enrols in a run without keys."""
        keys = self._offer.keys
        if keys is not None:
            if hello.client is None or hello.client not in keys:
                raise AuthError(f"client {hello.client}; expected the id of a client that has a key")
            return handshake.key_of(hello.nonce, keys[hello.client])
        if hello.client is None or not hello.run:
            return None
        secret = self._secret_of(hello.client)
        if secret is None:
            raise AuthError(
                f"client {hello.client} says that it has enrolled in this run, whose log does not know of it: the run's"
                " directory is an older copy, or had keys before; restore the newer one, or the keys, or begin with"
                " an empty directory of the device"
            )
        return secret
