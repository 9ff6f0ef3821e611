"""Whole rounds: the opened sum is the plain sum, whoever is lost and killed, and one loss more is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.secure.played_round import Federation, PlayedRound
from bench.secure.random_rounds import check, random_vectors
from edgefl.errors import NotOpenedError
from edgefl.protocol.secure.group_terms import group_terms

FEDERATION = Federation.of(list(range(12)), 1)


def played(count: int, losses: int, lost: dict[int, int], **settings) -> PlayedRound:
    """Return a round of the clients 0, 1, ... in which client 10 i + j has the vector [10 i + j, 1]."""
    terms = group_terms(FEDERATION.roster, "run", 3, "draw", list(range(count)), 2, 32, losses, **settings)
    vectors = {client: np.array([client, 1], np.uint32) for client in range(count)}
    return PlayedRound(terms, FEDERATION, vectors, lost, seed=7)


def test_the_sum_of_three() -> None:
    assert played(3, 0, {}).play().tolist() == [3, 3]


@pytest.mark.parametrize("step", range(5))
def test_a_client_that_is_lost_before_its_vector_is_not_in_the_sum(step: int) -> None:
    assert played(5, 2, {1: step, 4: step}).play().tolist() == ([5, 3] if step < 3 else [10, 5])


@pytest.mark.parametrize("kills", [False, True])
def test_losses_at_every_step(kills: bool) -> None:
    several = replace(played(12, 5, {0: 0, 3: 1, 6: 2, 9: 3, 11: 4}), kills=kills)
    assert several.play().tolist() == [66 - 9, 9]


@pytest.mark.parametrize(
    ("step", "sent"), [*enumerate(["round keys", "shares", "a masked vector", "a consent", "an opening"])]
)
def test_one_loss_more_is_named(step: int, sent: str) -> None:
    message = f"group 'draw' of round 3: 6 of 12 clients sent {sent}; expected at least 7"
    with pytest.raises(NotOpenedError, match=message):
        played(12, 5, dict.fromkeys(range(6), step)).play()


def test_the_threshold_follows_from_the_colluders() -> None:
    cases = ((12, 0), (12, 1), (12, 2), (11, 0), (11, 1))
    assert [played(n, 0, {}, colluders=c).terms.threshold for n, c in cases] == [7, 7, 8, 6, 7]
    with pytest.raises(ValueError, match="12 members, 3 colluders and 5 losses; expected at least 8 members to remain"):
        played(12, 5, {}, colluders=3)


def test_fewer_than_the_least_are_not_opened() -> None:
    assert played(4, 1, {0: 2}).play().tolist() == [6, 3]
    with pytest.raises(NotOpenedError, match="2 of 4 clients sent a masked vector; expected at least 3"):
        played(4, 1, {0: 2, 1: 2}).play()


def test_sums_wrap_at_the_modulus() -> None:
    three = played(3, 0, {})
    three.vectors = dict.fromkeys(range(3), np.array([2**32 - 1, 2**31], np.uint32))
    assert three.play().tolist() == [2**32 - 3, 2**31]


def test_a_sparse_group() -> None:
    """Each of 101 clients has 28 neighbours, and 10 losses at all steps are tolerated."""
    federation = Federation.of(list(range(101)), 2)
    terms = group_terms(federation.roster, "run", 3, "draw", list(range(101)), 3, 64, losses=10)
    assert not terms.is_complete
    lost = {client: client % 5 for client in range(0, 100, 10)}
    sparse = PlayedRound(terms, federation, random_vectors(terms, 2), lost, seed=3)
    assert (sparse.play() == sparse.expected()).all()


@pytest.mark.parametrize("seed", range(40))
def test_random_rounds_of_few_clients(seed: int) -> None:
    """`python -m bench secure rounds` plays 2,000 rounds of up to 120 clients."""
    assert check(seed, most=16)["rounds"] == 1
