"""The messages that a lying server and its colluder can send to one honest client of a small group.

A message has needs, which are facts that honest clients must have made before. So a search over the orders of messages
knows from when on a message exists. These are the facts:

    ("shared", a, b)               a has encrypted its shares for b
    ("signed", a, answers, digest) a has signed a set of answers with the digest of a list of keys
    ("own", a, b), ("mask", a, b)  b has opened its share of the own seed of a, or of the mask key of a
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from bench.secure.played_round import Federation
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_messages import (
    Answered,
    Consents,
    KeyList,
    Opening,
    RoundKeys,
    SealedShares,
    read_message,
)
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms
from edgefl.protocol.secure.key_list import RoundKeyList
from edgefl.protocol.secure.member_state import MemberState, Stage

Fact = tuple[Any, ...]
Facts = frozenset[Fact]


class LiarsMessage(NamedTuple):
    """A message to an honest client.

    stage  stage of a client that awaits such a message
    about  digest of the list of keys and set of answers that it is about, if there are such
    needs  facts without which the message does not exist
    act    gives the message to the client, and returns the facts that the client makes
    """

    stage: Stage
    about: frozenset[Any]
    needs: Facts
    act: Callable[[GroupMember], Facts]


@dataclass(frozen=True)
class SmallGroup:
    """Honest clients 0, 1, ... and one colluder with the highest id, which may have several round keys.

    begun  states before the first message, of all honest clients and then of the colluder, one for each of its keys
    """

    terms: GroupTerms
    federation: Federation
    begun: tuple[bytes, ...]

    @classmethod
    def of(cls, honest: int, liars_keys: int = 1, threshold: int | None = None) -> SmallGroup:
        """Return a group. A `threshold` in place of the right one shows that a search finds what it lets through."""
        members = list(range(honest + 1))
        federation = Federation.of(members, 1)
        terms = group_terms(federation.roster, "run", 1, "draw", members, 1, 32, losses=0, colluders=1)
        terms = terms if threshold is None else replace(terms, threshold=threshold, least=threshold)
        draw = random.Random(2).randbytes
        states = [MemberState(client, terms, draw(32)) for client in [*members, *[honest] * (liars_keys - 1)]]
        return cls(terms, federation, tuple(state.to_bytes() for state in states))

    @property
    def liar(self) -> int:
        return self.terms.members[-1]

    def member(self, state: bytes) -> GroupMember:
        """Return a client in a state."""
        client = MemberState.from_bytes(state).client
        return GroupMember.from_bytes(state, self.federation.identities[client], self.federation.roster)

    @cached_property
    def lists(self) -> list[tuple[RoundKeys, ...]]:
        """All lists of round keys with one key for each client."""
        keys = [read_message(self.member(state).round_keys(), RoundKeys, "keys") for state in self.begun]
        lists = [each for size in range(1, len(keys) + 1) for each in combinations(keys, size)]
        return [each for each in lists if len({one.client for one in each}) == len(each)]

    @cached_property
    def digests(self) -> list[bytes]:
        """The digests of all lists of round keys."""
        return [RoundKeyList(keys, self.terms.degree).digest for keys in self.lists]

    @cached_property
    def sealed(self) -> list[dict[int, bytes]]:
        """The encrypted shares by receiver, in the order of `begun`. They do not depend on the list of keys."""
        found = []
        for state in self.begun:
            own = read_message(self.member(state).round_keys(), RoundKeys, "keys")
            longest = max((each for each in self.lists if own in each), key=len)
            shares = self.member(state).share(KeyList(longest).to_bytes())
            found.append(read_message(shares, SealedShares, "shares").shares)
        return found

    @cached_property
    def _signatures(self) -> dict[tuple[tuple[int, ...], bytes], dict[int, bytes]]:
        """The signatures by client, of every set of answers with the digest of every list of keys."""
        identities = self.federation.identities
        return {
            (answers, digest): {
                each: identities[each].sign(Answered(answers).statement(self.terms.context, digest)) for each in answers
            }
            for answers in self.answer_sets
            for digest in self.digests
        }

    @cached_property
    def answer_sets(self) -> list[tuple[int, ...]]:
        """All sets of clients."""
        members = self.terms.members
        return [each for size in range(1, len(members) + 1) for each in combinations(members, size)]

    def messages_for(self, client: int) -> Iterator[LiarsMessage]:
        """Yield all messages for one honest client."""
        nothing: Facts = frozenset()
        yield LiarsMessage(Stage.READY, nothing, nothing, masking)
        for keys, digest in zip(self.lists, self.digests, strict=True):
            yield LiarsMessage(Stage.BEGUN, frozenset({digest}), nothing, sharing(keys))
        for answers in self.answer_sets:
            yield LiarsMessage(Stage.MASKED, frozenset({answers}), nothing, consenting(answers))
            for digest in self.digests:
                yield from self._consents(client, answers, digest)
        places = [place for place in range(len(self.begun)) if min(place, self.liar) != client]
        for size in range(len(places) + 1):
            for senders in combinations(places, size):
                yield self._shares(client, senders)

    def _shares(self, client: int, senders: tuple[int, ...]) -> LiarsMessage:
        """Return the message with the shares of those senders. Of the colluder's shares the last ones count."""
        sealed = {min(place, self.liar): self.sealed[place][client] for place in senders}
        needs = frozenset(("shared", sender, client) for sender in sealed if sender != self.liar)
        return LiarsMessage(Stage.SHARED, frozenset(), needs, receiving(SealedShares(sealed).to_bytes()))

    def _consents(self, client: int, answers: tuple[int, ...], digest: bytes) -> Iterator[LiarsMessage]:
        signed = self._signatures[answers, digest]
        others = [each for each in answers if each != client]
        for size in {len(others), self.terms.threshold - 1, self.terms.threshold - 2}:
            for signers in combinations(others, size):
                needs = frozenset(("signed", each, answers, digest) for each in signers if each != self.liar)
                sent = Consents({each: signed[each] for each in signers}).to_bytes()
                yield LiarsMessage(Stage.CONSENTED, frozenset({answers, digest}), needs, opening(sent))


def sharing(keys: tuple[RoundKeys, ...]) -> Callable[[GroupMember], Facts]:
    def act(member: GroupMember) -> Facts:
        shares = read_message(member.share(KeyList(keys).to_bytes()), SealedShares, "shares").shares
        return frozenset(("shared", member.state.client, other) for other in shares)

    return act


def receiving(message: bytes) -> Callable[[GroupMember], Facts]:
    def act(member: GroupMember) -> Facts:
        member.receive(message)
        return frozenset()

    return act


def masking(member: GroupMember) -> Facts:
    member.mask(np.array([member.state.client], np.uint32))
    return frozenset()


def consenting(answers: tuple[int, ...]) -> Callable[[GroupMember], Facts]:
    def act(member: GroupMember) -> Facts:
        member.consent(Answered(answers).to_bytes())
        digest = RoundKeyList(member.state.keys, member.state.terms.degree).digest
        return frozenset({("signed", member.state.client, answers, digest)})

    return act


def opening(message: bytes) -> Callable[[GroupMember], Facts]:
    def act(member: GroupMember) -> Facts:
        opened = read_message(member.open(message), Opening, "opening")
        by = member.state.client
        return frozenset([*(("own", each, by) for each in opened.own), *(("mask", each, by) for each in opened.mask)])

    return act
