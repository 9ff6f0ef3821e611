"""The messages of a group, as values and as bytes. The wire carries the bytes as they are.

    RoundKeys     device -> server    1. a client's public keys of the round, signed
    KeyList       server -> devices      the keys of all who sent them
    SealedShares  device -> server    2. its shares for each neighbour, encrypted
    SealedShares  server -> device       the shares that its neighbours have for it
    (a vector)    device -> server    3. the masked vector
    Answered      server -> devices      who has answered
    (a signature) device -> server    4. the device's consent to this set
    Consents      server -> devices      the consents of the others
    Opening       device -> server    5. a share of one of the two secrets of each neighbour

A message says its type and its size alone where it is shown as text, because some messages have secrets in them.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from edgefl.errors import RemoteProtocolError
from edgefl.protocol.secure.group_terms import MOST_MEMBERS, Members
from edgefl.protocol.secure.identity import statement
from edgefl.protocol.secure.prime_field import ELEMENT_BYTES
from edgefl.protocol.secure.roster import PublicKey, Signature
from edgefl.protocol.secure.sealed_shares import SEALED_BYTES
from edgefl.protocol.wire.message_fields import Client, Digest

Sealed = Annotated[bytes, Meta(min_length=SEALED_BYTES, max_length=SEALED_BYTES)]
Share = Annotated[bytes, Meta(min_length=ELEMENT_BYTES, max_length=ELEMENT_BYTES)]
ByClient = Meta(max_length=MOST_MEMBERS)


class GroupMessage(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of the messages of a group."""

    def to_bytes(self) -> bytes:
        """Return the bytes that are sent."""
        return msgspec.msgpack.encode(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.to_bytes())} bytes>"


class RoundKeys(GroupMessage, frozen=True):
    """The public keys of a client for one round.

    channel_key  for the encryption of shares
    mask_key     for pairwise masks
    own_digest   SHA-256 of the own seed, by which the server checks the seed that it opens
    signature    by the client's identity
    """

    client: Client
    channel_key: PublicKey
    mask_key: PublicKey
    own_digest: Digest
    signature: Signature

    def statement(self, context: bytes) -> bytes:
        """Return the bytes that the client signs."""
        return keys_statement(context, self.client, self.channel_key, self.mask_key, self.own_digest)


class KeyList(GroupMessage, frozen=True):
    """The keys of all clients who sent them, by ascending ids."""

    keys: Annotated[tuple[RoundKeys, ...], ByClient]


class SealedShares(GroupMessage, frozen=True):
    """Encrypted shares: for each receiver on the way to the server, of each sender on the way to a device."""

    shares: Annotated[dict[Client, Sealed], ByClient]


class Answered(GroupMessage, frozen=True):
    """The ids of the clients whose masked vectors are in the sum, ascending."""

    clients: Members

    def statement(self, context: bytes, keys_digest: bytes) -> bytes:
        """Return the bytes that a client signs as its consent. They name the round's keys, too."""
        return statement("answered", context, keys_digest, *(client.to_bytes(8, "little") for client in self.clients))


class Consents(GroupMessage, frozen=True):
    """The signatures of the clients who consented to one set, by client."""

    signatures: Annotated[dict[Client, Signature], ByClient]


class Opening(GroupMessage, frozen=True):
    """One share for each neighbour, by neighbour.

    own   shares of the own seeds of those who answered
    mask  shares of the mask's private keys of those who were lost
    """

    own: Annotated[dict[Client, Share], ByClient]
    mask: Annotated[dict[Client, Share], ByClient]


M = TypeVar("M", bound=Struct)


def keys_statement(context: bytes, client: int, channel_key: bytes, mask_key: bytes, own_digest: bytes) -> bytes:
    """Return the bytes by whose signature a client says that these are its keys in this group."""
    return statement("round keys", context, client.to_bytes(8, "little"), channel_key, mask_key, own_digest)


def read_message(data: bytes, kind: type[M], who: str, error: type[Exception] = RemoteProtocolError) -> M:
    """Return the message of these bytes. Raises `error`, whose sentence begins with `who`, for other bytes."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as reason:
        raise error(f"{who}: {kind.__name__} that cannot be read: {reason}") from None
