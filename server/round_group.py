"""One group of a round with secure aggregation: the steps that its clients still owe, and how the group ends.

protocol/secure/group_sum.py has the protocol. A step of the protocol is closed in memory first. Its clients are asked
for the next step when the closing is durable. So a server that was killed never asks two questions in place of one.
"""

from __future__ import annotations

import numpy as np

from edgefl.errors import NotOpenedError, RemoteProtocolError
from edgefl.protocol.secure.group_sum import GroupSum
from edgefl.protocol.secure.group_sum_state import Phase
from edgefl.protocol.secure.group_terms import GroupTerms
from edgefl.protocol.secure.handed_identities import HandedTerms
from edgefl.protocol.secure.mask_stream import Vector
from edgefl.protocol.secure.roster import Roster
from edgefl.protocol.wire.messages import GroupRequest


class RoundGroup:
    """A group, from its terms to its sum.

    terms       terms of the group
    invitation  bytes that the clients are sent in the first step
    failure   reason why the group is not opened, or empty
    opened    sum of the vectors of those who answered, once the group is opened
    deadline  time at which the present step is closed, whoever has taken it. None: no step is waiting
    """

    def __init__(self, terms: GroupTerms, roster: Roster, is_handed: bool = False) -> None:
        """Make a group. `is_handed` says that its clients get the roster with the terms, because no operator has signed
        a roster.
        """
        self.terms = terms
        self.invitation = HandedTerms(terms.to_bytes(), roster.keys).to_bytes() if is_handed else terms.to_bytes()
        self.failure = ""
        self.opened: Vector | None = None
        self.deadline: float | None = None
        self._sum = GroupSum.begin(terms, roster)
        self._asked: Phase | None = None  # phase whose clients may be asked
        self._refused: dict[int, str] = {}  # clients who take no further step, with their reasons

    @property
    def is_over(self) -> bool:
        """True if the group is opened, or cannot be opened."""
        return bool(self.failure) or self.opened is not None

    @property
    def phase(self) -> Phase:
        """The step of the clients that the group is at."""
        return self._sum.state.phase

    @property
    def answered(self) -> frozenset[int]:
        """The clients whose vectors are in the sum."""
        return frozenset(self._sum.state.vectors)

    def ask(self, deadline: float | None) -> None:
        """Let clients be asked for the present step, because all before it is durable."""
        self._asked, self.deadline = self.phase, None if self.is_over else deadline

    def awaited(self) -> set[int]:
        """Return the clients whose message of the present step may still come."""
        state = self._sum.state
        able = (self.terms.members, state.keys, state.shares, state.vectors, state.consents, ())[self.phase]
        return set() if self.is_over else {*able} - {*state.of_phase()} - {*self._refused}

    def request(self, client: int) -> GroupRequest | None:
        """Return what a client has to be asked now, or None if it owes nothing or may not be asked yet."""
        if self.is_over or self._asked != self.phase or client not in self.awaited():
            return None
        group = self._sum
        data = {
            Phase.KEYS: lambda: self.invitation,
            Phase.SHARES: group.key_list,
            Phase.VECTORS: lambda: group.shares_for(client),
            Phase.CONSENTS: group.answered,
            Phase.OPENINGS: lambda: group.consents_for(client),
        }[self.phase]()
        return GroupRequest(self.terms.round, self.phase + 1, data)

    def take(self, client: int, data: bytes) -> None:
        """Take a client's message of the present step. Raises RemoteProtocolError if it does not fit."""
        match self.phase:
            case Phase.KEYS:
                self._sum.add_keys(client, data)
            case Phase.SHARES:
                self._sum.add_shares(client, data)
            case Phase.VECTORS:
                self._sum.add_vector(client, self._vector(client, data))
            case Phase.CONSENTS:
                self._sum.add_consent(client, data)
            case Phase.OPENINGS:
                self._sum.add_opening(client, data)
            case Phase.CLOSED:
                raise RemoteProtocolError(f"{self.terms.name}, client {client}: a message after the last step")

    def refuse(self, client: int, reason: str) -> None:
        """Note that a client takes no further step."""
        self._refused[client] = reason

    def close(self) -> None:
        """Close the present step. After the last step the sum is opened."""
        self.deadline = None
        try:
            self._sum.close()
            if self.phase == Phase.CLOSED:
                self.opened = self._sum.opened()
        except NotOpenedError as error:
            self.fail(str(error) + self._refusals())

    def fail(self, reason: str) -> None:
        """Leave the group out of the round."""
        self.failure, self.deadline = reason, None

    def _refusals(self) -> str:
        if not self._refused:
            return ""
        client, reason = min(self._refused.items())
        return f"; {len(self._refused)} clients refused, client {client}: {reason}"

    def _vector(self, client: int, data: bytes) -> Vector:
        kind = np.dtype(f"<u{self.terms.bits // 8}")
        if len(data) != self.terms.values * kind.itemsize:
            raise RemoteProtocolError(
                f"{self.terms.name}, client {client}: a vector of {len(data)} bytes; expected "
                f"{self.terms.values * kind.itemsize}"
            )
        return np.frombuffer(data, kind).astype(kind.newbyteorder("="))
