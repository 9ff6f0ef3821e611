"""All orders of messages to the honest clients of a small group, and random walks through the orders.

A lying server knows what its colluder knows, sends any message to any client at any time, and repeats messages. After
every order it must not have enough shares of both secrets of an honest client, and two clients must not have opened
two sets. The search gives every message to every state of a client once. It then walks through all combinations of the
clients' states, in which a message is sent where the facts that it needs are true.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.secure.liars_messages import Fact, Facts, LiarsMessage, SmallGroup
from edgefl.errors import SecurityError
from edgefl.protocol.secure.member_state import Stage


class BothSeedsError(Exception):
    """An order of messages after which a server knows both secrets of a client."""


class Found(NamedTuple):
    """The size of a search: combinations of states, messages that were sent, and messages that clients refused."""

    states: int
    messages: int
    refusals: int


@dataclass
class ClientState:
    """A state of one honest client: its bytes, the facts that it has made, and what leads on.

    edges  the needs of a message, and the place of the state to which it leads
    """

    state: bytes
    facts: Facts
    edges: list[tuple[Facts, int]] = field(default_factory=list)


def client_states(group: SmallGroup, client: int) -> tuple[list[ClientState], int]:
    """Return all states of a client, the first one first, and how many messages were refused."""
    messages = list(group.messages_for(client))
    found, refusals = [ClientState(group.begun[client], frozenset())], 0
    for each in found:  # grows meanwhile
        known: dict[bytes, int] = {}
        member = group.member(each.state)
        for message in messages:
            try:
                made = message.act(member)
            except SecurityError:
                refusals += 1
                made = frozenset()
            after = member.to_bytes()
            if after != each.state:
                if after not in known:
                    known[after] = len(found)
                    found.append(ClientState(after, each.facts | made))
                each.edges.append((message.needs, known[after]))
                member = group.member(each.state)
            elif not made <= each.facts:
                raise BothSeedsError(f"client {client} has told {made}, and its state does not have it")
    return found, refusals


def breach(group: SmallGroup, facts: Facts) -> str | None:
    """Return what a server with these facts can open and must not, or None."""
    for client in range(group.liar):
        liars = {group.liar} if ("shared", client, group.liar) in facts else set()
        own = {fact[2] for fact in facts if fact[:2] == ("own", client)} | liars
        mask = {fact[2] for fact in facts if fact[:2] == ("mask", client)} | liars
        if min(len(own), len(mask)) >= group.terms.threshold:
            return f"own seed of client {client} by {sorted(own)}, its mask key by {sorted(mask)}"
    return None


def search(group: SmallGroup) -> Found:
    """Go through all orders. Raises BothSeedsError if one of them opens both secrets of a client."""
    explored = [client_states(group, client) for client in range(group.liar)]
    states = [each for each, _ in explored]
    start = (0,) * len(states)
    seen, waiting, sent = {start}, [start], 0
    while waiting:
        places = waiting.pop()
        facts = frozenset[Fact]().union(*(states[client][place].facts for client, place in enumerate(places)))
        found = breach(group, facts)
        if found is not None:
            raise BothSeedsError(found)
        for client, place in enumerate(places):
            for needs, target in states[client][place].edges:
                if needs <= facts:
                    sent += 1
                    after = (*places[:client], target, *places[client + 1 :])
                    if after not in seen:
                        seen.add(after)
                        waiting.append(after)
    return Found(len(seen), sent, sum(refusals for _, refusals in explored))


def walk(group: SmallGroup, seconds: float, seed: int) -> Found:
    """Send random messages to clients, which are killed and restored between some messages.

    A walk is about two lists of keys and two sets of answers. So clients often await what they are sent.
    Returns  the number of openings in place of the number of states.
    Raises   BothSeedsError if a walk opens both secrets of a client.
    """
    draw, total = random.Random(seed), Found(0, 0, 0)
    messages = [list(group.messages_for(client)) for client in range(group.liar)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = _one_walk(group, messages, draw)
        total = Found(*(a + b for a, b in zip(total, found)))
    return total


def _one_walk(group: SmallGroup, messages: list[list[LiarsMessage]], draw: random.Random) -> Found:
    members = [group.member(state) for state in group.begun[: group.liar]]
    enough = group.terms.threshold - draw.choice((0, 0, 0, 1))  # some walks are about what every client refuses
    lists = [digest for digest, keys in zip(group.digests, group.lists) if len(keys) >= enough]
    sets = [each for each in group.answer_sets if len(each) >= enough]
    topics = [*draw.sample(lists, 2), *draw.sample(sets, 2)]
    usual, favour = {*topics[::2]}, draw.choice((1, 8))
    chosen = [[each for each in some if each.about <= {*topics}] for some in messages]
    facts, sent, refusals = frozenset[Fact](), 0, 0
    for _ in range(draw.randrange(50, 200)):
        client = draw.randrange(len(members))
        awaited = members[client].state.stage if draw.random() < 0.8 else draw.choice([*Stage])
        open_ = [each for each in chosen[client] if each.stage == awaited and each.needs <= facts]
        if open_:
            weights = [(1 + len(each.needs) ** 3) * (favour if each.about <= usual else 1) for each in open_]
            (message,) = draw.choices(open_, weights)  # rather many shares than few
            try:
                facts |= message.act(members[client])
                sent += 1
            except SecurityError:
                refusals += 1
        if draw.random() < 0.1:
            members[client] = group.member(members[client].to_bytes())
        found = breach(group, facts)
        if found is not None:
            raise BothSeedsError(found)
    return Found(sum(each.state.stage == Stage.OPENED for each in members), sent, refusals)
