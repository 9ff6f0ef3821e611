"""A roster that the server hands on, in a run without an operator: the identities that the devices say they have.

Nobody but the server vouches for the roster, so a server that lies can make up devices. The name of its federation is a
digest of the identities. So devices that were handed different identities have different terms, and sign for different
groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_terms import MOST_MEMBERS
from edgefl.protocol.secure.roster import PublicKey, Roster
from edgefl.protocol.wire.message_fields import Client


class HandedTerms(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The terms of a group, as bytes, and the public half of each member's identity."""

    terms: bytes
    keys: Annotated[dict[Client, PublicKey], Meta(max_length=MOST_MEMBERS)]

    def to_bytes(self) -> bytes:
        """Return the bytes that the server sends to the members in the first step."""
        return msgspec.msgpack.encode(self)


def handed_roster(keys: Mapping[int, bytes]) -> Roster:
    """Return the roster of identities for which the server alone vouches.

    keys  public half of each client's identity, 32 bytes
    """
    ordered = dict(sorted(keys.items()))
    digest = hashlib.sha256(b"edgefl handed identities 1" + msgspec.msgpack.encode(ordered)).hexdigest()
    return Roster(digest, 1, ordered)


def read_handed(data: bytes) -> tuple[bytes, Roster]:
    """Return the bytes of the terms, unchecked, and the roster that comes with them.

    Raises  SecurityError for other bytes.
    """
    try:
        handed = msgspec.msgpack.decode(data, type=HandedTerms)
    except msgspec.DecodeError as error:
        raise SecurityError(f"terms of a group with identities that cannot be read: {error}") from None
    return handed.terms, handed_roster(handed.keys)
