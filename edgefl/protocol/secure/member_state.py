"""The state of a device in a group between two steps, as a value and as bytes that survive a kill of the process."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from edgefl.errors import RunError
from edgefl.protocol.secure.group_messages import ByClient, RoundKeys
from edgefl.protocol.secure.group_terms import GroupTerms, Members
from edgefl.protocol.secure.roster import PublicKey
from edgefl.protocol.secure.round_secrets import SEED_BYTES
from edgefl.protocol.secure.sealed_shares import SHARES_BYTES
from edgefl.protocol.wire.message_fields import Client


class Stage(IntEnum):
    """The last step that a member has taken."""

    BEGUN = 0  # it has drawn its seed
    SHARED = 1  # it has shared its secrets among the clients of one list of keys
    READY = 2  # it has the shares of its neighbours
    MASKED = 3  # it has masked one vector
    CONSENTED = 4  # it has signed one set of clients who answered
    OPENED = 5  # it has opened its shares for this set


class MemberState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The state of one member of one group. Every step makes a new one.

    seed          the member's secrets follow from it. It is empty after the last step
    keys          list of round keys, among whose clients the member has shared its secrets
    shares        two shares by the client whose secrets they are of, itself included. Empty after the last step
    input_digest  SHA-256 of the vector that was masked
    answered      clients of the set that the member has signed
    opening       bytes of the last step's message
    identities    identities of the members that the server handed on (handed_identities.py). Empty: a roster has them
    """

    client: Client
    terms: GroupTerms
    seed: Annotated[bytes, Meta(max_length=SEED_BYTES)]
    stage: Stage = Stage.BEGUN
    keys: Annotated[tuple[RoundKeys, ...], ByClient] = ()
    shares: Annotated[
        dict[Client, Annotated[bytes, Meta(min_length=SHARES_BYTES, max_length=SHARES_BYTES)]], ByClient
    ] = msgspec.field(default_factory=dict)
    input_digest: Annotated[bytes, Meta(max_length=32)] = b""
    answered: Members = ()
    opening: bytes = b""
    identities: Annotated[dict[Client, PublicKey], ByClient] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<MemberState of client {self.client} in {self.terms.name}, {self.stage.name}>"

    def to_bytes(self) -> bytes:
        """Return the bytes of the state, which are as secret as the device's own samples."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> MemberState:
        """Return the state of these bytes. Raises RunError for other bytes."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise RunError(f"a saved state of secure aggregation that cannot be read: {error}") from None
