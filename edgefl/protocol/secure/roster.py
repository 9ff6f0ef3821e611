"""The roster of a federation: whose identity is whose, signed by the operator's key, which the server does not have.

A device keeps the newest roster that it accepted, and refuses an older one. So a server can neither add a client of its
own making nor bring back a client that was revoked.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from edgefl.errors import SecurityError
from edgefl.protocol.secure.identity import IDENTITY_BYTES, SIGNATURE_BYTES, SigningIdentity, is_signed, statement
from edgefl.protocol.wire.message_fields import Client, Name

PublicKey = Annotated[bytes, Meta(min_length=IDENTITY_BYTES, max_length=IDENTITY_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Version = Annotated[int, Meta(ge=1, lt=1 << 53)]
MOST_CLIENTS = 1 << 20


class Roster(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The identities of a federation.

    federation  name of the federation
    version     number that grows with every change
    keys        public half of every client's identity
    revoked     ids of clients who take part no more
    """

    federation: Name
    version: Version
    keys: Annotated[dict[Client, PublicKey], Meta(max_length=MOST_CLIENTS)]
    revoked: Annotated[tuple[Client, ...], Meta(max_length=MOST_CLIENTS)] = ()

    def public_key(self, client: int) -> bytes:
        """Return the public half of a client's identity. Raises SecurityError if the client may not take part."""
        if client in self.revoked:
            raise SecurityError(f"client {client} is revoked in version {self.version} of the roster; expected others")
        try:
            return self.keys[client]
        except KeyError:
            raise SecurityError(f"client {client} is not in version {self.version} of the roster") from None


class SignedRoster(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The bytes of a roster, and the operator's signature of the bytes."""

    roster: bytes
    signature: Signature


def signed_roster(roster: Roster, operator: SigningIdentity) -> bytes:
    """Return the signed bytes of a roster, which anybody may carry."""
    body = msgspec.msgpack.encode(roster)
    return msgspec.msgpack.encode(SignedRoster(body, operator.sign(statement("roster", body))))


def decoded_roster(data: bytes) -> tuple[SignedRoster, Roster]:
    """Return the signed bytes and the roster in them. The signature is not checked.

    Raises  SecurityError for bytes that are no roster.
    """
    try:
        signed = msgspec.msgpack.decode(data, type=SignedRoster)
        return signed, msgspec.msgpack.decode(signed.roster, type=Roster)
    except msgspec.DecodeError as error:
        raise SecurityError(f"a roster that cannot be read: {error}") from None


def accepted_roster(data: bytes, operator: bytes, federation: str, kept: Roster | None) -> Roster:
    """Return the roster of signed bytes, which the device keeps from now on.

    operator    public half of the operator's identity
    federation  name of the federation in which the device takes part
    kept        roster that the device accepted last, or None
    Raises      SecurityError for bytes that the operator did not sign, of another federation, or older than `kept`.
    """
    signed, roster = decoded_roster(data)
    if not is_signed(operator, statement("roster", signed.roster), signed.signature):
        raise SecurityError(f"the operator's key has not signed version {roster.version} of the roster")
    if roster.federation != federation:
        raise SecurityError(f"a roster of the federation {roster.federation!r}; expected {federation!r}")
    if kept is not None and roster.version < kept.version:
        raise SecurityError(f"version {roster.version} of the roster; expected version {kept.version} or a newer one")
    if kept is not None and roster.version == kept.version and roster != kept:
        raise SecurityError(f"another roster with version {roster.version}; expected a new version for each change")
    return roster
