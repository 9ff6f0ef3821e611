"""The server's half: what it refuses of a client, what it names, and what wrong shares do."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from bench.secure.played_round import PlayedRound
from edgefl.errors import NotOpenedError, RemoteProtocolError, RunError, SecurityError
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_messages import Answered, Opening, RoundKeys, SealedShares, read_message
from edgefl.protocol.secure.group_sum import GroupSum
from edgefl.protocol.secure.group_sum_state import GroupSumState, Phase
from edgefl.protocol.secure.group_terms import group_terms
from edgefl.protocol.secure.identity import SigningIdentity
from edgefl.protocol.secure.key_list import RoundKeyList
from edgefl.protocol.secure.member_state import MemberState, Stage
from edgefl.protocol.secure.roster import Roster
from edgefl.protocol.secure.shamir import combine, weights_at_zero
from tests.protocol.secure.test_attacks import FEDERATION, round_of_five


def keys_by(client: int, played: PlayedRound, **changes: object) -> bytes:
    """Return the round keys of a client with changes, which the client has signed."""
    keys = replace(read_message(played.members[client].round_keys(), RoundKeys, ""), **changes)
    signature = FEDERATION.identities[client].sign(keys.statement(played.terms.context))
    return replace(keys, signature=signature).to_bytes()


def own_keys(played: PlayedRound) -> bytes:
    return played.members[0].round_keys()


FAULTS: list[tuple[Phase, Callable[[GroupSum, PlayedRound], None], str]] = [
    (Phase.KEYS, lambda group, played: group.add_keys(0, b"x"), "client 0: RoundKeys that cannot be read"),
    (Phase.KEYS, lambda group, played: group.add_keys(1, own_keys(played)), "round keys of another client"),
    (Phase.KEYS, lambda group, played: group.add_keys(5, own_keys(played)), "round keys of a client who has not"),
    (
        Phase.KEYS,
        lambda group, played: [
            group.add_keys(0, keys) for keys in (own_keys(played), keys_by(0, played, own_digest=bytes(32)))
        ],
        "round keys that differ from what it sent before",
    ),
    (
        Phase.KEYS,
        lambda group, played: group.add_keys(0, read_message(own_keys(played), RoundKeys, "").to_bytes()[:-1] + b"\0"),
        "client 0 has not signed its round keys",
    ),
    (Phase.SHARES, lambda group, played: group.add_keys(0, own_keys(played)), "round keys in the phase SHARES"),
    (
        Phase.SHARES,
        lambda group, played: group.add_shares(0, SealedShares({1: bytes(82)}).to_bytes()),
        "shares for 1 clients; expected one for each neighbour",
    ),
    (Phase.VECTORS, lambda group, played: group.add_vector(0, np.zeros(3, np.uint32)), "3 values of uint32"),
    (Phase.VECTORS, lambda group, played: group.add_vector(0, np.zeros(2, np.uint64)), "2 values of uint64"),
    (
        Phase.VECTORS,
        lambda group, played: [group.add_vector(0, np.zeros(2, np.uint32)) for _ in range(2)],
        "a second vector",
    ),
    (Phase.CONSENTS, lambda group, played: group.add_consent(0, bytes(64)), "a consent that it has not signed"),
    (Phase.CONSENTS, lambda group, played: group.add_consent(4, bytes(64)), "a consent of a client who has not"),
    (
        Phase.OPENINGS,
        lambda group, played: group.add_opening(0, Opening({}, {}).to_bytes()),
        "an opening of other shares than those that were asked for",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "act", "words"), FAULTS)
def test_a_client_that_lies_is_named(phase: Phase, act: Callable, words: str) -> None:
    played = round_of_five({4: 2}).until(phase)
    with pytest.raises(RemoteProtocolError, match=f"client \\d.*{words}|{words}"):
        act(played.group, played)


def test_a_copied_key_does_not_reach_the_others() -> None:
    played = round_of_five()
    played.group.add_keys(1, played.members[1].round_keys())
    taken = read_message(played.members[1].round_keys(), RoundKeys, "").channel_key
    with pytest.raises(RemoteProtocolError, match="expected its own, two different ones"):
        played.group.add_keys(0, keys_by(0, played, channel_key=taken))


def test_the_same_message_twice_counts_once() -> None:
    played = round_of_five()
    for _ in range(2):
        played.group.add_keys(0, played.members[0].round_keys())
    assert len(played.group.state.keys) == 1


def opened_with(wrong: Callable[[dict[int, bytes]], dict[int, bytes]], lost: dict[int, int]) -> list[int]:
    """Return the sum where client 0 opens wrong shares of the own seeds."""
    played = round_of_five(lost).until(Phase.OPENINGS)
    for client in played.present(4):
        opening = read_message(played.members[client].open(played.group.consents_for(client)), Opening, "")
        changed = replace(opening, own=wrong(opening.own)) if client == 0 else opening
        played.group.add_opening(client, changed.to_bytes())
    played.group.close()
    return played.group.opened().tolist()


def swapped(shares: dict[int, bytes]) -> dict[int, bytes]:
    return {**shares, 1: shares[2], 2: shares[1]}


def test_a_wrong_share_does_no_harm_where_a_share_is_spare() -> None:
    assert opened_with(swapped, {}) == [10, 5]


def test_a_wrong_share_is_named_where_every_share_is_needed() -> None:
    with pytest.raises(
        NotOpenedError, match="4 shares do not give the own seed of client 1; expected at least 4 right"
    ):
        opened_with(swapped, {4: 4})
    with pytest.raises(NotOpenedError, match="do not give the own seed of client 1"):
        opened_with(lambda shares: {**shares, 1: 33 * b"\xff"}, {4: 4})


def test_the_sum_is_not_read_before_the_last_phase() -> None:
    with pytest.raises(ValueError, match="is in the phase OPENINGS; expected CLOSED"):
        round_of_five().until(Phase.OPENINGS).group.opened()


def test_a_group_that_falls_apart_is_opened_by_neither_side() -> None:
    """A ring of 300 clients is cut in two places, at which as many clients as half the degree are lost."""
    clients, draw = range(300), random.Random(1).randbytes
    identity = SigningIdentity(bytes(32))
    roster = Roster("fed", 1, dict.fromkeys(clients, identity.public))
    terms = group_terms(roster, "run", 3, "draw", [*clients], 1, 32, losses=60)
    keys = {client: RoundKeys(client, draw(32), draw(32), draw(32), draw(64)) for client in clients}
    sealed = dict.fromkeys(clients, SealedShares({}))
    graph = RoundKeyList((*keys.values(),), terms.degree).graph
    half = terms.degree // 2
    around = sorted(clients, key=lambda client: graph._place[client])
    cut = {*clients} - {*around[:half], *around[150 : 150 + half]}
    assert len(cut) >= terms.fewest
    state = GroupSumState(terms, bytes(4), Phase.VECTORS, keys, sealed, cut)
    with pytest.raises(NotOpenedError, match=f"no masks connect the {len(cut)} clients who answered"):
        GroupSum(state, roster).close()
    me = min(cut)
    shares = dict.fromkeys([me, *graph.neighbours(me)], bytes(66))
    device = GroupMember(
        MemberState(me, terms, bytes(32), Stage.MASKED, (*keys.values(),), shares, bytes(32)), identity, roster
    )
    with pytest.raises(SecurityError, match="a set of answers that no masks connect"):
        device.consent(Answered((*sorted(cut),)).to_bytes())
    whole = {*clients} - {*around[:half]}
    assert device.consent(Answered((*sorted(whole),)).to_bytes())


def test_saved_states_of_other_bytes_are_refused() -> None:
    with pytest.raises(RunError, match="a saved group of secure aggregation that cannot be read"):
        GroupSum.from_bytes(b"", FEDERATION.roster)
    with pytest.raises(RunError, match="a saved state of secure aggregation that cannot be read"):
        GroupMember.from_bytes(b"", FEDERATION.identities[0], FEDERATION.roster)


def test_no_text_shows_a_secret() -> None:
    played = round_of_five().until(Phase.OPENINGS)
    device, group = played.members[0], played.group
    shown = repr([device, device.state, device.state.__dict__ if hasattr(device.state, "__dict__") else None])
    shown += repr([group, group.state, SigningIdentity(bytes(32)), device._secrets, device._secrets.mask])
    shown += repr(read_message(device.open(group.consents_for(0)), Opening, ""))
    assert "<MemberState of client 0 in group 'tier 1' of round 3, CONSENTED>" in shown
    assert "<Opening of" in shown
    assert "\\x" not in shown
    assert "b'" not in shown


def test_what_the_server_gets_of_a_lost_client_opens_one_of_its_seeds() -> None:
    """Client 4 is lost after its vector was announced as missing: the shares give its mask key, and no own seed."""
    played = round_of_five({4: 2}).until(Phase.CLOSED)
    openings = played.group.state.openings
    assert {client for each in openings.values() for client in each.mask} == {4}
    assert {client for each in openings.values() for client in each.own} == {0, 1, 2, 3}
    shares = [each.mask[4] for each in openings.values()]
    private = combine(shares, weights_at_zero([played.terms.point(client) for client in openings]))
    assert private == played.members[4]._secrets._mask_private


def test_the_draw_gives_the_same_bytes_again() -> None:
    one, two = (round_of_five() for _ in range(2))
    one.play()
    two.play()
    assert one.transcript == two.transcript
    other = PlayedRound(one.terms, FEDERATION, one.vectors, {}, seed=random.Random(0).randrange(10**9))
    other.play()
    assert set(one.transcript) & set(other.transcript) == {one.group.answered()}
