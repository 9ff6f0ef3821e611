"""The state of a group on the server, as a value and as bytes that survive a kill of the process."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

import msgspec
from msgspec import Struct

from edgefl.errors import RunError
from edgefl.protocol.secure.group_messages import Opening, RoundKeys, SealedShares
from edgefl.protocol.secure.group_terms import GroupTerms


class Phase(IntEnum):
    """The step of the clients that the server awaits."""

    KEYS = 0
    SHARES = 1
    VECTORS = 2
    CONSENTS = 3
    OPENINGS = 4
    CLOSED = 5

    @property
    def sent(self) -> str:
        """Name in a sentence what a client sends in this phase."""
        return ("round keys", "shares", "a masked vector", "a consent", "an opening", "nothing")[self]


class GroupSumState(Struct, array_like=True, forbid_unknown_fields=True):
    """The messages of a group's clients, by client, and the sum of their masked vectors.

    vectors  clients whose vectors are in the sum
    total    the sum, little-endian
    """

    terms: GroupTerms
    total: bytes
    phase: Phase = Phase.KEYS
    keys: dict[int, RoundKeys] = {}
    shares: dict[int, SealedShares] = {}
    vectors: set[int] = set()
    consents: dict[int, bytes] = {}
    openings: dict[int, Opening] = {}

    def __repr__(self) -> str:
        return f"<GroupSumState of {self.terms.name}, {self.phase.name}>"

    def of_phase(self) -> Collection[int]:
        """Return the clients who have taken the step of the present phase."""
        return (self.keys, self.shares, self.vectors, self.consents, self.openings)[self.phase]

    def to_bytes(self) -> bytes:
        """Return the bytes of the state."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupSumState:
        """Return the state of these bytes. Raises RunError for other bytes."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise RunError(f"a saved group of secure aggregation that cannot be read: {error}") from None
