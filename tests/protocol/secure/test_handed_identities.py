"""A run without an operator: the server says whose identity is whose, and a server that lies is not noticed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bench.secure.played_round import Federation, PlayedRound, view_of
from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms
from edgefl.protocol.secure.handed_identities import HandedTerms, handed_roster, read_handed
from edgefl.protocol.secure.roster import Roster

HONEST = Federation.of([0], 1)
MADE_UP = Federation.of([1, 2, 3, 4], 66)
HANDED = Federation(
    HONEST.identities | MADE_UP.identities, handed_roster({**HONEST.roster.keys, **MADE_UP.roster.keys})
)


def terms(roster: Roster) -> GroupTerms:
    return group_terms(roster, "run", 3, "tier 1", [0, 1, 2, 3, 4], 2, 32, losses=1, colluders=1)


def test_a_server_that_makes_up_devices_reads_a_vector() -> None:
    """The page names this attack as one that --insecure does not cover."""
    secret = np.array([1234, 5678], np.uint32)
    vectors = {0: secret, **dict.fromkeys(MADE_UP.identities, np.zeros(2, np.uint32))}
    assert (PlayedRound(terms(HANDED.roster), HANDED, vectors, {}, seed=3).play() == secret).all()


def test_with_a_roster_the_made_up_devices_are_refused() -> None:
    with_others = Federation.of([0, 1, 2, 3, 4], 1)
    stated, identity = terms(HANDED.roster), with_others.identities[0]
    with pytest.raises(SecurityError, match=r"terms with the federation '[0-9a-f]{64}'; expected 'fed'"):
        GroupMember.begin(
            stated.to_bytes(), view_of(stated, 0), identity, with_others.roster, random.Random(0).randbytes
        )


def test_other_identities_give_other_terms() -> None:
    data = HandedTerms(terms(HANDED.roster).to_bytes(), HANDED.roster.keys).to_bytes()
    assert read_handed(data) == (terms(HANDED.roster).to_bytes(), HANDED.roster)
    swapped = {**HANDED.roster.keys, 1: HANDED.roster.keys[2], 2: HANDED.roster.keys[1]}
    assert handed_roster(swapped).federation != HANDED.roster.federation
    assert handed_roster(dict(reversed(swapped.items()))) == handed_roster(swapped)
    with pytest.raises(SecurityError, match="terms of a group with identities that cannot be read"):
        read_handed(data[:-1])
