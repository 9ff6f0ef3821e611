"""A round of secure aggregation in one process: a server, its members, and who is lost at which step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np

from edgefl.protocol.secure import group_member, group_sum, key_list
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_sum import GroupSum
from edgefl.protocol.secure.group_sum_state import Phase
from edgefl.protocol.secure.group_terms import GroupTerms, OwnView
from edgefl.protocol.secure.identity import SigningIdentity, is_signed
from edgefl.protocol.secure.roster import Roster

STEPS = ("keys", "shares", "vector", "consent", "opening")
NEVER = len(STEPS)


@dataclass(frozen=True)
class Federation:
    """Clients with identities, and their roster."""

    identities: dict[int, SigningIdentity]
    roster: Roster

    @classmethod
    def of(cls, clients: list[int], seed: int, version: int = 1) -> Federation:
        draw = random.Random(f"identities {seed}").randbytes
        identities = {client: SigningIdentity.make(draw) for client in clients}
        keys = {client: identity.public for client, identity in identities.items()}
        return cls(identities, Roster("fed", version, keys))


@dataclass
class PlayedRound:
    """A round that is played step by step.

    lost        by client the step at which it is lost, NEVER if it stays
    transcript  what the clients sent and what they were sent, in order
    kills       True writes and reads the state of both sides at every step
    """

    terms: GroupTerms
    federation: Federation
    vectors: dict[int, np.ndarray[Any, Any]]
    lost: dict[int, int]
    seed: int
    kills: bool = False
    transcript: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        data, draw = self.terms.to_bytes(), random.Random(f"round {self.seed}").randbytes
        roster, identities = self.federation.roster, self.federation.identities
        self.members = {
            client: GroupMember.begin(data, view_of(self.terms, client), identities[client], roster, draw)
            for client in self.terms.members
        }
        self.group = GroupSum.begin(self.terms, roster)

    def play(self) -> np.ndarray[Any, Any]:
        """Return the opened sum. Raises NotOpenedError if too many are lost."""
        return self.until(Phase.CLOSED).group.opened()

    def until(self, phase: Phase) -> PlayedRound:
        """Play up to the beginning of a phase, and return this round."""
        steps = self._send_keys, self._send_shares, self._send_vectors, self._send_consents, self._send_openings
        while self.group.state.phase < phase:
            steps[self.group.state.phase]()
        return self

    def _send_keys(self) -> None:
        for client in self.present(0):
            self.group.add_keys(client, self.sent(self.members[client].round_keys()))
        self.closed()

    def _send_shares(self) -> None:
        keys = self.sent(self.group.key_list())
        for client in self.present(1):
            self.group.add_shares(client, self.sent(self.members[client].share(keys)))
        self.closed()

    def _send_vectors(self) -> None:
        for client in self.present(2):
            self.members[client].receive(self.sent(self.group.shares_for(client)))
            self.group.add_vector(client, self.masked(client))
        self.closed()

    def _send_consents(self) -> None:
        answered = self.sent(self.group.answered())
        for client in self.present(3):
            self.group.add_consent(client, self.sent(self.members[client].consent(answered)))
        self.closed()

    def _send_openings(self) -> None:
        for client in self.present(4):
            consents = self.sent(self.group.consents_for(client))
            self.group.add_opening(client, self.sent(self.members[client].open(consents)))
        self.closed()

    def closed(self) -> None:
        """End the phase. With `kills`, both sides go on from the bytes of their states."""
        self.group.close()
        if self.kills:
            roster, identities = self.federation.roster, self.federation.identities
            self.group = GroupSum.from_bytes(self.group.to_bytes(), roster)
            for client, member in self.members.items():
                self.members[client] = GroupMember.from_bytes(member.to_bytes(), identities[client], roster)

    def present(self, step: int) -> list[int]:
        return [client for client in self.terms.members if self.lost.get(client, NEVER) > step]

    def masked(self, client: int) -> np.ndarray[Any, Any]:
        vector = self.vectors[client].copy()
        self.members[client].mask(vector)
        self.sent(vector.tobytes())
        return vector

    def sent(self, message: bytes) -> bytes:
        self.transcript.append(message)
        return message

    def expected(self) -> np.ndarray[Any, Any]:
        """Return the plain sum of those who answered."""
        answered = self.present(2)
        total = np.zeros_like(self.vectors[answered[0]])
        for client in answered:
            total += self.vectors[client]
        return total


def view_of(terms: GroupTerms, client: int) -> OwnView:
    """Return the view of a device that was asked for what the terms say."""
    return OwnView(client, terms.run, terms.round, terms.draw, terms.values, terms.bits, terms.round - 1)


@contextmanager
def signatures_checked_once() -> Iterator[None]:
    """Check a signature once that many clients of this process check. A check is a function of its arguments alone."""
    remembered = lru_cache(maxsize=1000)(is_signed)
    with ExitStack() as stack:
        for module in (group_member, group_sum, key_list):
            stack.enter_context(mock.patch.object(module, "is_signed", remembered))
        yield
