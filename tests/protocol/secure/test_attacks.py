"""Attacks of a lying server, and of a client beside it: the device refuses each in words, and nothing is opened.

There are five clients, of whom one may collude, so that the threshold is 4. The device under attack is client 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.secure.played_round import Federation, PlayedRound, view_of
from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_messages import Answered, Consents, KeyList, RoundKeys, SealedShares, read_message
from edgefl.protocol.secure.group_sum_state import Phase
from edgefl.protocol.secure.group_terms import GroupTerms, OwnView, group_terms
from edgefl.protocol.secure.identity import SigningIdentity
from edgefl.protocol.secure.member_state import Stage
from edgefl.protocol.secure.roster import Roster, accepted_roster, signed_roster

FEDERATION = Federation.of(list(range(6)), 1)
SERVER = SigningIdentity(bytes(32))
OPERATOR = SigningIdentity(32 * b"o")


def round_of_five(lost: dict[int, int] | None = None, **settings: Any) -> PlayedRound:
    given = {"run": "run", "round": 3, "draw": "tier 1", "members": list(range(5)), **settings}
    terms = group_terms(FEDERATION.roster, values=2, bits=32, losses=1, colluders=1, **given)
    vectors = {client: np.array([client, 1], np.uint32) for client in terms.members}
    return PlayedRound(terms, FEDERATION, vectors, lost or {}, seed=terms.round)


def keys_of(played: PlayedRound) -> list[RoundKeys]:
    return [*read_message(played.group.key_list(), KeyList, "the list").keys]


def offer_keys(keys: list[RoundKeys]) -> None:
    """Send device 0 of a new round these keys. The test expects that the device refuses them."""
    refused(round_of_five().members[0], lambda device: device.share(KeyList(tuple(keys)).to_bytes()))


def refused(device: GroupMember, attack: Callable[[GroupMember], Any]) -> None:
    """Carry out an attack that the device refuses, and check that the device has not changed."""
    before = device.to_bytes()
    try:
        attack(device)
    finally:
        assert device.to_bytes() == before


def begin(terms: GroupTerms, roster: Roster = FEDERATION.roster, **view: Any) -> None:
    honest = {**vars(view_of(round_of_five().terms, 0)), **view}
    GroupMember.begin(terms.to_bytes(), OwnView(**honest), FEDERATION.identities[0], roster, random.Random(0).randbytes)


def two_answer_sets() -> None:
    played = round_of_five().until(Phase.CONSENTS)
    played.members[0].consent(played.group.answered())
    refused(played.members[0], lambda device: device.consent(Answered((0, 1, 2, 3)).to_bytes()))


def another_set_after_the_opening() -> None:
    played = round_of_five().until(Phase.CLOSED)
    refused(played.members[0], lambda device: device.consent(Answered((0, 1, 2, 3)).to_bytes()))


def replayed_keys() -> None:
    keys, earlier = keys_of(round_of_five().until(Phase.SHARES)), round_of_five(round=2).until(Phase.SHARES)
    keys[1] = keys_of(earlier)[1]
    offer_keys(keys)


def keys_of_another_group() -> None:
    keys, other = keys_of(round_of_five().until(Phase.SHARES)), round_of_five(draw="tier 2").until(Phase.SHARES)
    keys[1] = keys_of(other)[1]
    offer_keys(keys)


def substituted_key() -> None:
    keys = keys_of(round_of_five().until(Phase.SHARES))
    keys[1] = replace(keys[1], channel_key=RoundKeysOfServer.channel)
    offer_keys(keys)


def key_that_the_server_signed() -> None:
    played = round_of_five().until(Phase.SHARES)
    keys = keys_of(played)
    forged = replace(keys[1], channel_key=RoundKeysOfServer.channel)
    keys[1] = replace(forged, signature=SERVER.sign(forged.statement(played.terms.context)))
    offer_keys(keys)


class RoundKeysOfServer:
    channel = bytes([9]) + bytes(31)


def colluders_key(channel_key: bytes) -> list[RoundKeys]:
    """Return the list in which client 1, a colluder, has signed another channel key."""
    played = round_of_five().until(Phase.SHARES)
    keys = keys_of(played)
    changed = replace(keys[1], channel_key=channel_key)
    keys[1] = replace(changed, signature=FEDERATION.identities[1].sign(changed.statement(played.terms.context)))
    return keys


def key_of_low_order() -> None:
    offer_keys(colluders_key(bytes(32)))


def copied_key() -> None:
    offer_keys(colluders_key(keys_of(round_of_five().until(Phase.SHARES))[2].channel_key))


def duplicate_client() -> None:
    keys = keys_of(round_of_five().until(Phase.SHARES))
    offer_keys([*keys[:2], *keys[1:]])


def client_who_is_not_a_member() -> None:
    keys = keys_of(round_of_five().until(Phase.SHARES))
    offer_keys([*keys, replace(keys[4], client=5)])


def list_without_the_device() -> None:
    offer_keys(keys_of(round_of_five().until(Phase.SHARES))[1:])


def too_short_a_list() -> None:
    offer_keys(keys_of(round_of_five().until(Phase.SHARES))[:3])


def second_list_of_keys() -> None:
    played = round_of_five().until(Phase.VECTORS)
    keys = KeyList(tuple(keys_of(played)[:4])).to_bytes()
    refused(played.members[0], lambda device: device.share(keys))


def swapped_shares() -> None:
    played = round_of_five().until(Phase.VECTORS)
    shares = dict(read_message(played.group.shares_for(0), SealedShares, "").shares)
    shares[1], shares[2] = shares[2], shares[1]
    refused(played.members[0], lambda device: device.receive(SealedShares(shares).to_bytes()))


def shares_for_another_client() -> None:
    played = round_of_five().until(Phase.VECTORS)
    shares = dict(read_message(played.group.shares_for(0), SealedShares, "").shares)
    shares[1] = read_message(played.group.shares_for(2), SealedShares, "").shares[1]
    refused(played.members[0], lambda device: device.receive(SealedShares(shares).to_bytes()))


def too_few_shares() -> None:
    played = round_of_five().until(Phase.VECTORS)
    shares = dict(read_message(played.group.shares_for(0), SealedShares, "").shares)
    few = {client: shares[client] for client in (1, 2)}
    refused(played.members[0], lambda device: device.receive(SealedShares(few).to_bytes()))


def fewer_shares_after_the_vector() -> None:
    played = round_of_five().until(Phase.CONSENTS)
    shares = dict(read_message(played.group.shares_for(0), SealedShares, "").shares)
    del shares[4]
    refused(played.members[0], lambda device: device.receive(SealedShares(shares).to_bytes()))


def second_vector() -> None:
    played = round_of_five().until(Phase.CONSENTS)
    refused(played.members[0], lambda device: device.mask(np.array([7, 7], np.uint32)))


def graph_that_the_keys_do_not_give() -> None:
    federation = Federation.of(list(range(101)), 2)
    terms = group_terms(federation.roster, "run", 3, "tier 1", list(range(101)), 2, 32, losses=10)
    device, *others = PlayedRound(terms, federation, {}, {}, seed=1).members.values()
    keys = [read_message(each.round_keys(), RoundKeys, "") for each in (device, *others)]
    shares = read_message(device.share(KeyList(tuple(keys)).to_bytes()), SealedShares, "").shares
    stranger = next(client for client in range(1, 101) if client not in shares)
    sealed = {**dict.fromkeys([*shares][1:], bytes(82)), stranger: bytes(82)}
    refused(device, lambda device: device.receive(SealedShares(sealed).to_bytes()))


def answers(*clients: int, lost: dict[int, int] | None = None) -> None:
    played = round_of_five(lost).until(Phase.CONSENTS)
    refused(played.members[0], lambda device: device.consent(Answered(clients).to_bytes()))


def consents(changed: Callable[[PlayedRound, dict[int, bytes]], dict[int, bytes]]) -> None:
    played = round_of_five({4: 2}).until(Phase.OPENINGS)
    signatures = dict(read_message(played.group.consents_for(0), Consents, "").signatures)
    message = Consents(changed(played, signatures)).to_bytes()
    refused(played.members[0], lambda device: device.open(message))


def forged(played: PlayedRound, signatures: dict[int, bytes]) -> dict[int, bytes]:
    message = Answered((0, 1, 2, 3)).statement(played.terms.context, played.group._list.digest)
    return {**signatures, 1: SERVER.sign(message)}


def of_another_set(played: PlayedRound, signatures: dict[int, bytes]) -> dict[int, bytes]:
    message = Answered((0, 1, 2, 3, 4)).statement(played.terms.context, played.group._list.digest)
    return {**signatures, 1: FEDERATION.identities[1].sign(message)}


def of_another_list_of_keys(played: PlayedRound, signatures: dict[int, bytes]) -> dict[int, bytes]:
    message = Answered((0, 1, 2, 3)).statement(played.terms.context, bytes(32))
    return {**signatures, 1: FEDERATION.identities[1].sign(message)}


def of_an_earlier_round(played: PlayedRound, signatures: dict[int, bytes]) -> dict[int, bytes]:
    message = Answered((0, 1, 2, 3)).statement(round_of_five(round=2).terms.context, played.group._list.digest)
    return {**signatures, 1: FEDERATION.identities[1].sign(message)}


def terms(**changes: Any) -> None:
    begin(replace(round_of_five().terms, **changes))


def roster(version: int, signer: SigningIdentity = OPERATOR, federation: str = "fed", **changes: Any) -> None:
    kept = FEDERATION.roster
    sent = replace(kept, version=version, federation=federation, **changes)
    accepted_roster(signed_roster(sent, signer), OPERATOR.public, "fed", replace(kept, version=2))


ATTACKS = {  # name -> (attack, words of the refusal)
    "two answer sets": (two_answer_sets, "a second set of answers; expected the first one again"),
    "a set after the opening": (another_set_after_the_opening, "a second set of answers"),
    "keys of an earlier round": (replayed_keys, "client 1 has not signed its round keys for this group"),
    "keys of another group": (keys_of_another_group, "client 1 has not signed its round keys for this group"),
    "a substituted key": (substituted_key, "client 1 has not signed its round keys for this group"),
    "a key signed by the server": (key_that_the_server_signed, "client 1 has not signed its round keys"),
    "a key of low order": (key_of_low_order, "a round key of client 1 with which no secret can be agreed"),
    "a key under two names": (copied_key, "a round key that stands in the list twice"),
    "a client twice": (duplicate_client, "round keys that are not of members, one each, in ascending order"),
    "a stranger in the list": (client_who_is_not_a_member, "round keys that are not of members"),
    "a list without the device": (list_without_the_device, "without this device's own keys"),
    "a short list": (too_short_a_list, "round keys of 3 clients; expected at least 4"),
    "a second list": (second_list_of_keys, "a second list of round keys"),
    "swapped shares": (swapped_shares, "shares that client 1 has not encrypted for this device"),
    "shares for another client": (shares_for_another_client, "shares that client 1 has not encrypted for this device"),
    "too few shares": (too_few_shares, "shares of 2 neighbours; expected at least 3"),
    "other shares after the vector": (fewer_shares_after_the_vector, "shares of other clients"),
    "a second vector": (second_vector, "a second vector; expected the first one again"),
    "another graph": (graph_that_the_keys_do_not_give, "is not a neighbour in the graph"),
    "a claimed loss of the device": (lambda: answers(1, 2, 3, 4), "a set of answers without this device"),
    "a group of one": (lambda: answers(0), "a set of 1 answers; expected at least 4"),
    "a group below the threshold": (lambda: answers(0, 1, 2), "a set of 3 answers; expected at least 4"),
    "an answer without shares": (lambda: answers(0, 1, 2, 3, 4, lost={4: 1}), "an answer of client 4, who has not"),
    "an answer twice": (lambda: answers(0, 1, 1, 2, 3), "in ascending order"),
    "an answer of a stranger": (lambda: answers(0, 1, 2, 3, 5), "is not of the round's clients"),
    "a dropped signature": (lambda: consents(lambda _, found: dict([*found.items()][1:])), "consents of 2 others"),
    "a forged signature": (lambda: consents(forged), "a consent that client 1 has not signed for this set"),
    "a signature of another set": (lambda: consents(of_another_set), "a consent that client 1 has not signed"),
    "a signature of other keys": (lambda: consents(of_another_list_of_keys), "a consent that client 1 has not signed"),
    "a signature of round 2": (lambda: consents(of_an_earlier_round), "a consent that client 1 has not signed"),
    "a consent of the lost": (lambda: consents(lambda _, found: {**found, 4: bytes(64)}), "who has not answered"),
    "the wrong draw": (lambda: terms(draw="tier 2"), "the draw 'tier 2'; expected 'tier 1'"),
    "the wrong round": (lambda: terms(round=4), "the round 4; expected 3"),
    "the wrong run": (lambda: terms(run="other"), "the run 'other'; expected 'run'"),
    "the wrong federation": (lambda: terms(federation="x"), "the federation 'x'; expected 'fed'"),
    "the wrong length": (lambda: terms(values=3), "the number of values 3; expected 2"),
    "the wrong modulus": (lambda: terms(bits=64), "the number of bits 64; expected 32"),
    "terms of an old roster": (lambda: terms(roster=2), "the version of the roster 2; expected 1"),
    "a lowered threshold": (lambda: terms(threshold=3), "the threshold 3; expected what follows from 1 colluders"),
    "a thinned graph": (lambda: terms(degree=2), "each with 2 neighbours"),
    "terms of a group of one": (lambda: terms(members=(0,), degree=0), "has 1 members; expected at least 3"),
    "terms without the device": (lambda: terms(members=(1, 2, 3, 4, 5)), "expected ascending ids with 0"),
    "a member twice": (lambda: terms(members=(0, 1, 1, 2, 3)), "expected ascending ids"),
    "members whom nobody knows": (lambda: terms(members=(0, 1, 2, 3, 9)), "client 9 is not in version 1"),
    "fewer colluders than asked": (
        lambda: begin(round_of_five().terms, colluders=2), "1 colluders; expected at least 2",
    ),
    "fewer members than asked": (lambda: begin(round_of_five().terms, least=4), "3 least members; expected at least 4"),
    "a round once more": (lambda: begin(round_of_five().terms, last_round=3), "this device has begun round 3"),
    "a revoked client": (
        lambda: begin(round_of_five().terms, replace(FEDERATION.roster, revoked=(3,))), "client 3 is revoked",
    ),
    "an old roster": (lambda: roster(1), "version 1 of the roster; expected version 2 or a newer one"),
    "a changed roster": (lambda: roster(2, revoked=(1,)), "another roster with version 2"),
    "a roster of the server": (lambda: roster(3, SERVER), "the operator's key has not signed version 3"),
    "a roster of others": (lambda: roster(3, federation="x"), "a roster of the federation 'x'; expected 'fed'"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_words(name: str) -> None:
    attack, words = ATTACKS[name]
    with pytest.raises(SecurityError, match=words):
        attack()


def test_a_server_that_does_not_lie_is_answered() -> None:
    assert round_of_five().play().tolist() == [10, 5]
    begin(round_of_five().terms)
    kept = replace(FEDERATION.roster, version=2)
    newer = replace(kept, version=3, revoked=(5,))
    assert accepted_roster(signed_roster(newer, OPERATOR), OPERATOR.public, "fed", kept) == newer
    assert accepted_roster(signed_roster(kept, OPERATOR), OPERATOR.public, "fed", kept) == kept


def test_every_step_is_refused_before_its_time() -> None:
    played, calls = round_of_five(), 0
    messages = {
        Stage.SHARED: lambda device: device.receive(SealedShares({}).to_bytes()),
        Stage.READY: lambda device: device.mask(np.zeros(2, np.uint32)),
        Stage.MASKED: lambda device: device.consent(Answered((0, 1, 2, 3, 4)).to_bytes()),
        Stage.CONSENTED: lambda device: device.open(Consents({}).to_bytes()),
    }
    for phase in (Phase.KEYS, Phase.SHARES, Phase.VECTORS, Phase.CONSENTS):
        device = played.until(phase).members[0]
        for stage, message in messages.items():
            if stage > device.state.stage:
                with pytest.raises(SecurityError, match="before"):
                    refused(device, message)
                calls += 1
    assert calls == 12


def test_a_step_in_the_same_words_gives_the_same_bytes_and_opens_nothing_more() -> None:
    played = round_of_five({4: 2}).until(Phase.OPENINGS)
    device, group = played.members[0], played.group
    keys, answered = group.key_list(), Answered((0, 1, 2, 3)).to_bytes()
    assert device.share(keys) == device.share(keys)
    masked = [played.vectors[0].copy() for _ in range(2)]
    for vector in masked:
        device.mask(vector)
    assert masked[0].tolist() == masked[1].tolist() != played.vectors[0].tolist()
    assert device.consent(answered) == group.state.consents[0]
    assert device.open(group.consents_for(0)) == device.open(group.consents_for(0))


def test_after_the_opening_the_device_has_no_secret_left() -> None:
    played = round_of_five().until(Phase.CLOSED)
    device = played.members[0]
    assert device.state.seed == b""
    assert device.state.shares == {}
    for step in (
        device.round_keys,
        lambda: device.share(played.group.key_list()),
        lambda: device.mask(played.vectors[0].copy()),
    ):
        with pytest.raises(SecurityError, match="a step after the last one"):
            step()


def test_bytes_that_are_not_a_message_are_refused() -> None:
    device = round_of_five().until(Phase.CONSENTS).members[0]
    for step in (device.share, device.receive, device.consent):
        with pytest.raises(SecurityError, match="that cannot be read"):
            step(b"\x00")
    with pytest.raises(SecurityError, match="terms of a group that cannot be read"):
        GroupMember.begin(b"", view_of(device.state.terms, 0), FEDERATION.identities[0], FEDERATION.roster, bytes)
    with pytest.raises(SecurityError, match="a roster that cannot be read"):
        accepted_roster(b"", OPERATOR.public, "fed", None)
