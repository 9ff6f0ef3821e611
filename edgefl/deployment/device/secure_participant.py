"""A device's part in secure aggregation: the roster that it trusts, and its steps in the group of a round.

protocol/secure/group_member.py has the steps. Before the result of a step is returned, the state after the step is on
the disk. So a device that was killed takes each step again in the same words, or refuses it.
"""

from __future__ import annotations

from edgefl.deployment.device.device_environment import DeviceEnvironment, durably
from edgefl.deployment.device.device_profile import SecureProfile
from edgefl.deployment.device.device_state import DeviceState
from edgefl.errors import SecurityError
from edgefl.methods.rounds.summed_reply import bits_for, weighted
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_terms import GroupTerms, OwnView, read_terms
from edgefl.protocol.secure.handed_identities import read_handed
from edgefl.protocol.secure.roster import Roster, accepted_roster
from edgefl.protocol.trust.identity_files import roster_of
from edgefl.protocol.wire.messages import (
    LONGEST_TEXT,
    GroupReady,
    GroupReply,
    GroupRequest,
    RosterPart,
    SecureOffer,
    Trained,
)
from edgefl.protocol.wire.run_terms import named_run

TERMS, SHARE, MASK, CONSENT, OPEN = range(1, 6)  # steps of a round


class SecureParticipant:
    """The steps of one device in the groups of one run.

    is_offered  whether the server of this connection has offered secure aggregation
    """

    def __init__(self, profile: SecureProfile, state: DeviceState, world: DeviceEnvironment) -> None:
        self._profile, self._state, self._world = profile, state, world
        self.is_offered = False
        self._parts = bytearray()  # of a roster that has not been offered yet
        self._roster: Roster | None = None
        self._member: GroupMember | None = None

    def begin(self) -> None:
        """Begin a connection, whose server has offered nothing yet."""
        self.is_offered = False
        self._parts.clear()

    def hear(self, message: RosterPart | SecureOffer) -> None:
        """Keep a part of the roster until the offer, or take the offer. The connection has checked the parts' places.

        Raises  SecurityError as `offer` does.
        """
        if isinstance(message, RosterPart):
            self._parts += message.data
        else:
            self.offer(message)

    def offer(self, message: SecureOffer) -> None:
        """Take the server's offer, and keep its roster.

        Raises  SecurityError for a roster that the operator has not signed or that is older than the newest one, for a
                roster where the device knows no operator, for no roster where it knows one, or for fewer clients in a
                sum than the device asks for.
        """
        asked = self._profile
        stated = ("clients", message.least, asked.least), ("colluders", message.colluders, asked.colluders)
        for what, given, lowest in stated:
            if given < lowest:
                raise SecurityError(f"the server opens sums with at least {given} {what}; expected at least {lowest}")
        self._roster = self._accepted(bytes(self._parts) or message.roster)
        self._parts.clear()
        self._member, self.is_offered = None, True

    def _accepted(self, data: bytes) -> Roster | None:
        """Return the roster that the device keeps from now on, or None in a run without an operator."""
        asked = self._profile
        if asked.operator is None and data:
            raise SecurityError(
                "the run has the roster of an operator; expected the public half of its key (--operator)"
            )
        if asked.operator is None:
            return None
        if not data:
            raise SecurityError(
                "the run has no roster of an operator, so its server says who the other devices are; expected a roster"
            )
        operator, rosters = asked.operator, self._state.rosters
        before = {roster_of(each).federation: each for each in rosters.of(operator)}
        federation = asked.federation or self._federation([*before], roster_of(data).federation)
        kept = accepted_roster(before[federation], operator, federation, None) if federation in before else None
        if kept is not None and data == before[federation]:
            return kept
        found = accepted_roster(data, operator, federation, kept)
        durably(lambda: rosters.keep(operator, federation, data), self._state.path, self._world)
        return found

    def _federation(self, known: list[str], offered: str) -> str:
        """Return the federation in which the device takes part, where its owner has not named one."""
        if len(known) > 1:
            raise SecurityError(
                f"a roster of the federation {offered!r}, and this device has rosters of {', '.join(known)}; expected "
                "the name of one (--federation)"
            )
        return known[0] if known else offered

    def ready(self, reply: Trained) -> GroupReady:
        """Return the device's word that it has trained, from the reply that it keeps."""
        own = self._profile.identity.public if self._profile.operator is None else b""
        return GroupReady(reply.round, reply.selection_hash, reply.examples, reply.steps, reply.seconds, own)

    def step(self, message: GroupRequest) -> GroupReply:
        """Take a step in the group of the round that was trained last, and return the answer.

        A step that could open this client alone, or that does not fit, is refused in the answer. The device stays in
        the run, because another client may be the cause.
        """
        try:
            data = self._taken(message)
        except SecurityError as error:
            self._world.say(f"round {message.round}: step {message.step} of secure aggregation is refused: {error}")
            return GroupReply(message.round, message.step, b"", str(error)[:LONGEST_TEXT])
        return GroupReply(message.round, message.step, data, "")

    def _taken(self, message: GroupRequest) -> bytes:
        member = self._member_for(message)
        before = member.state
        if message.step == TERMS:
            data = member.round_keys()
        elif message.step == SHARE:
            data = member.share(message.data)
        elif message.step == MASK:
            data = self._masked(member, message.data)
        elif message.step == CONSENT:
            data = member.consent(message.data)
        else:
            data = member.open(message.data)
        if member.state is not before or message.step == TERMS:
            durably(lambda: self._state.keep_group(member.to_bytes()), self._state.path, self._world)
        self._member = member
        return data

    def _masked(self, member: GroupMember, shares: bytes) -> bytes:
        member.receive(shares)
        terms = member.state.terms
        vector = weighted(self._state.summand().numbers, terms.weight(member.state.client), terms.bits)
        member.mask(vector)
        return vector.astype(vector.dtype.newbyteorder("<")).tobytes()

    def _member_for(self, message: GroupRequest) -> GroupMember:
        """Return the member of the round's group: the one in memory or on the disk, or a new one for new terms."""
        kept = self._member or self._kept()
        is_begun = kept is not None and kept.state.terms.round == message.round
        if message.step != TERMS:
            if kept is None or not is_begun:
                raise SecurityError(f"step {message.step} in round {message.round} before the terms of a group")
            return kept
        terms, roster = read_handed(message.data) if self._roster is None else (message.data, self._roster)
        if kept is not None and is_begun and kept.state.terms.to_bytes() == terms:
            return kept
        last = 0 if kept is None else kept.state.terms.round
        view, is_handed = self._view(message, read_terms(terms), last), self._roster is None
        draw = self._world.random_bytes
        return GroupMember.begin(terms, view, self._profile.identity, roster, draw, is_handed)

    def _kept(self) -> GroupMember | None:
        data = self._state.group()
        return None if data is None else GroupMember.from_bytes(data, self._profile.identity, self._roster)

    def _view(self, message: GroupRequest, stated: GroupTerms, last: int) -> OwnView:
        assert self._state.enrolment is not None
        welcome, reply, part = self._state.enrolment.welcome, self._state.reply(), self._state.summand()
        count = len(part.numbers)
        try:
            bits = bits_for(sum(stated.weights), count, len(stated.members))
        except ValueError as error:
            raise SecurityError(f"{stated.name}: {error}") from None
        return OwnView(
            welcome.client,
            named_run(self._state.enrolment.run, welcome),
            message.round,
            part.draw,
            count,
            bits,
            last,
            max(reply.examples, reply.steps, 1),
            self._profile.least,
            self._profile.colluders,
        )
