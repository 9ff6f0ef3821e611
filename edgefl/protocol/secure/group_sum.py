"""The server's half of secure aggregation in one group: five phases, at the end of which it has the sum alone.

    group = GroupSum.begin(terms, roster)
    group.add_keys(client, bytes) ...      group.close()    group.key_list()
    group.add_shares(client, bytes) ...    group.close()    group.shares_for(client)
    group.add_vector(client, vector) ...   group.close()    group.answered()
    group.add_consent(client, bytes) ...   group.close()    group.consents_for(client)
    group.add_opening(client, bytes) ...   group.close()    group.opened()

`close` says that no more messages of the phase are awaited, and raises NotOpenedError if too few have come. Then the
group is left out of the round as a whole. A message that does not fit raises RemoteProtocolError and changes nothing,
so that its client counts as lost. `to_bytes` has all that a killed server needs to go on. The caller says which client
a message is from.
The protocol follows figure 4 of Bonawitz et al. 2017.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from edgefl.errors import NotOpenedError, RemoteProtocolError, SecurityError
from edgefl.protocol.secure.group_messages import (
    Answered,
    Consents,
    KeyList,
    M,
    Opening,
    RoundKeys,
    SealedShares,
    read_message,
)
from edgefl.protocol.secure.group_sum_state import GroupSumState, Phase
from edgefl.protocol.secure.group_terms import GroupTerms
from edgefl.protocol.secure.identity import is_signed
from edgefl.protocol.secure.key_list import RoundKeyList, check_signature
from edgefl.protocol.secure.mask_stream import Vector, check_vector
from edgefl.protocol.secure.opened_secrets import take_masks_out
from edgefl.protocol.secure.roster import Roster

T = TypeVar("T")


class GroupSum:
    """The sum of one group in one round, as the server builds it."""

    def __init__(self, state: GroupSumState, roster: Roster) -> None:
        self.state = state
        self._terms, self._roster = state.terms, roster
        self._list = RoundKeyList(self._key_list().keys, state.terms.degree)
        self._total = np.frombuffer(state.total, f"<u{state.terms.bits // 8}").astype(f"=u{state.terms.bits // 8}")

    @classmethod
    def begin(cls, terms: GroupTerms, roster: Roster) -> GroupSum:
        """Begin a group, whose terms `terms.to_bytes()` every member is sent."""
        return cls(GroupSumState(terms, total=bytes(terms.values * terms.bits // 8)), roster)

    @classmethod
    def from_bytes(cls, data: bytes, roster: Roster) -> GroupSum:
        """Go on from the bytes of a saved state. Raises RunError for other bytes."""
        return cls(GroupSumState.from_bytes(data), roster)

    def to_bytes(self) -> bytes:
        """Return the bytes to save before a message of this group is acknowledged."""
        self.state.total = self._total.astype(self._total.dtype.newbyteorder("<")).tobytes()
        return self.state.to_bytes()

    def add_keys(self, client: int, data: bytes) -> None:
        """Take a member's round keys."""
        keys = self._read(client, data, RoundKeys)
        self._expect(client, Phase.KEYS, {*self._terms.members}, "round keys")
        others = [each for each in self.state.keys.values() if each.client != client]
        used = {key for each in others for key in (each.channel_key, each.mask_key)}
        if keys.client != client or keys.channel_key == keys.mask_key or {keys.channel_key, keys.mask_key} & used:
            raise self._fault(client, "round keys of another client; expected its own, two different ones")
        try:
            check_signature(keys, self._terms, self._roster)
        except SecurityError as error:
            raise RemoteProtocolError(str(error)) from None
        self._keep(self.state.keys, client, keys, "round keys")

    def key_list(self) -> bytes:
        """Return the message with all round keys, for every client who sent them."""
        return self._key_list().to_bytes()

    def add_shares(self, client: int, data: bytes) -> None:
        """Take the shares that a client has encrypted for its neighbours."""
        shares = self._read(client, data, SealedShares)
        self._expect(client, Phase.SHARES, {*self.state.keys}, "shares")
        if {*shares.shares} != {*self._list.graph.neighbours(client)}:
            raise self._fault(client, f"shares for {len(shares.shares)} clients; expected one for each neighbour")
        self._keep(self.state.shares, client, shares, "shares")

    def shares_for(self, client: int) -> bytes:
        """Return the message with the shares that a client's neighbours have for it."""
        senders = [each for each in self._list.graph.neighbours(client) if each in self.state.shares]
        return SealedShares({sender: self.state.shares[sender].shares[client] for sender in senders}).to_bytes()

    def add_vector(self, client: int, vector: Vector) -> None:
        """Add a client's masked vector to the sum. The vector is not kept."""
        self._expect(client, Phase.VECTORS, {*self.state.shares}, "a vector")
        check_vector(vector)
        if vector.dtype != self._total.dtype or len(vector) != len(self._total):
            raise self._fault(client, f"{len(vector)} values of {vector.dtype}; expected what the terms say")
        if client in self.state.vectors:
            raise self._fault(client, "a second vector; expected one")
        np.add(self._total, vector, out=self._total)
        self.state.vectors.add(client)

    def answered(self) -> bytes:
        """Return the message with the ids of the clients whose vectors are in the sum, for each of these clients."""
        return self._answered().to_bytes()

    def add_consent(self, client: int, signature: bytes) -> None:
        """Take a client's signature of the set of clients who answered."""
        self._expect(client, Phase.CONSENTS, self.state.vectors, "a consent")
        message = self._answered().statement(self._terms.context, self._list.digest)
        if not is_signed(self._roster.public_key(client), message, signature):
            raise self._fault(client, "a consent that it has not signed for this set")
        self._keep(self.state.consents, client, signature, "a consent")

    def consents_for(self, client: int) -> bytes:
        """Return the message with as many consents of a client's neighbours as it needs to see."""
        signers = [each for each in self._list.graph.neighbours(client) if each in self.state.consents]
        chosen = signers[: self._terms.threshold - 1]
        return Consents({signer: self.state.consents[signer] for signer in chosen}).to_bytes()

    def add_opening(self, client: int, data: bytes) -> None:
        """Take the shares that a client opened."""
        opening = self._read(client, data, Opening)
        self._expect(client, Phase.OPENINGS, {*self.state.consents}, "an opening")
        circle = {*self._list.graph.neighbours(client), client} & {*self.state.shares}
        if {*opening.own} != circle & self.state.vectors or {*opening.mask} != circle - self.state.vectors:
            raise self._fault(client, "an opening of other shares than those that were asked for")
        self._keep(self.state.openings, client, opening, "an opening")

    def close(self) -> None:
        """Go on to the next phase. Raises NotOpenedError if fewer clients have taken the step than are needed."""
        phase, terms = self.state.phase, self._terms
        if phase == Phase.CLOSED:
            return
        count, fewest = len(self.state.of_phase()), max(terms.fewest, terms.least)
        if count < fewest:
            raise NotOpenedError(
                f"{terms.name}: {count} of {len(terms.members)} clients sent {phase.sent}; expected at least {fewest}"
            )
        if phase == Phase.KEYS:
            self._list = RoundKeyList(self._key_list().keys, terms.degree)
        if phase == Phase.VECTORS and not self._list.graph.is_connected(self.state.vectors):
            raise NotOpenedError(f"{terms.name}: no masks connect the {count} clients who answered to one group")
        self.state.phase = Phase(phase + 1)

    def opened(self) -> Vector:
        """Return the sum of the vectors of the clients who answered.

        Raises  NotOpenedError if the shares do not give the masks.
        """
        if self.state.phase != Phase.CLOSED:
            raise ValueError(f"{self._terms.name} is in the phase {self.state.phase.name}; expected CLOSED")
        total, answered = self._total.copy(), self.state.vectors
        lost = {*self.state.shares} - answered
        take_masks_out(total, self._terms, self._list, lost, answered, self.state.openings)
        return total

    def _key_list(self) -> KeyList:
        return KeyList(tuple(self.state.keys[client] for client in sorted(self.state.keys)))

    def _answered(self) -> Answered:
        return Answered(tuple(sorted(self.state.vectors)))

    def _read(self, client: int, data: bytes, kind: type[M]) -> M:
        return read_message(data, kind, f"{self._terms.name}, client {client}")

    def _expect(self, client: int, phase: Phase, clients: set[int], what: str) -> None:
        """Raise RemoteProtocolError unless a client of these may send this now."""
        if self.state.phase != phase:
            raise self._fault(client, f"{what} in the phase {self.state.phase.name}; expected {phase.name}")
        if client not in clients:
            raise self._fault(client, f"{what} of a client who has not taken the step before")

    def _keep(self, kept: dict[int, T], client: int, message: T, what: str) -> None:
        """Keep a client's message. Raises RemoteProtocolError if the client has sent another one before."""
        if kept.setdefault(client, message) != message:
            raise self._fault(client, f"{what} that differ from what it sent before")

    def _fault(self, client: int, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self._terms.name}, client {client}: {what}")
