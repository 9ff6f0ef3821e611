"""Random rounds of secure aggregation: the opened sum is the plain sum, and one loss more than tolerated is named.

A round has 3 to 120 clients, colluders, and losses at every step. A third of all rounds is played by processes that
are killed and go on from their saved state between two steps. Rounds of few clients are drawn more often than rounds
of many clients, because the time of a round grows with the square of its clients.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np

from bench.secure.played_round import NEVER, STEPS, Federation, PlayedRound
from edgefl.errors import NotOpenedError
from edgefl.protocol.secure.group_shape import MOST_COMPLETE, complete_shape
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms
from edgefl.protocol.wire.group_defaults import LEAST

FEWEST, MOST = 3, 120
NOT_OPENED = re.compile(r"group 'draw \d+' of round \d+: \d+ of \d+ clients sent .*; expected at least \d+")


class WrongSumError(Exception):
    """A random round whose result is not what it must be."""


def random_round(seed: int, most: int = MOST) -> PlayedRound:
    """Return a round with at most as many losses as it tolerates, `most` clients at most."""
    draw = random.Random(seed)
    count = round(FEWEST * (most / FEWEST) ** draw.random() ** 1.5)
    clients = sorted(draw.sample(range(1000), count))
    colluders = draw.randrange(count // 4 + 1)
    tolerated = _tolerated(count, colluders)
    losses = draw.choice((0, tolerated, draw.randrange(tolerated + 1)))
    federation = Federation.of(clients, seed)
    bits = draw.choice((32, 64))
    terms = group_terms(
        federation.roster, f"run {seed}", draw.randrange(1, 100), f"draw {seed}", clients, draw.randrange(1, 20), bits,
        losses, colluders,
    )  # fmt: skip
    lost = {client: draw.randrange(NEVER) for client in draw.sample(clients, losses)}
    return PlayedRound(terms, federation, random_vectors(terms, seed), lost, seed, kills=seed % 3 == 0)


def random_vectors(terms: GroupTerms, seed: int) -> dict[int, np.ndarray]:
    """Return a vector of uniform integers for every member."""
    numbers, dtype = np.random.default_rng(seed), np.dtype(f"u{terms.bits // 8}")
    most = np.iinfo(dtype).max
    return {each: numbers.integers(0, most, terms.values, dtype, endpoint=True) for each in terms.members}


def one_more_lost(played: PlayedRound, seed: int) -> PlayedRound:
    """Return the round with one loss more than it tolerates."""
    draw, terms = random.Random(seed), played.terms
    lost = dict(played.lost)
    others = draw.sample([each for each in terms.members if each not in lost], len(terms.members) - len(lost))
    while len(terms.members) - len(lost) >= terms.fewest:
        lost[others.pop()] = draw.randrange(NEVER)
    return replace(played, lost=lost, transcript=[])


def check(seed: int, most: int = MOST) -> Counter[str]:
    """Play a random round, and the round with one loss more. Return what was counted. Raises WrongSumError."""
    played = random_round(seed, most)
    opened, expected = played.play(), played.expected()
    if opened.dtype != expected.dtype or not np.array_equal(opened, expected):
        raise WrongSumError(f"seed {seed}: opened {opened[:3]}; expected {expected[:3]}")
    beyond = one_more_lost(played, seed)
    try:
        beyond.play()
    except NotOpenedError as error:
        if not NOT_OPENED.fullmatch(str(error)):
            raise WrongSumError(f"seed {seed}: the refusal {error!s}; expected the numbers of clients") from None
    else:
        raise WrongSumError(f"seed {seed}: {len(beyond.lost)} losses were opened; expected a refusal")
    count = Counter({"rounds": 1, "clients": len(played.terms.members), "losses": len(played.lost)})
    count.update(f"lost before {STEPS[step]}" for step in played.lost.values())
    count.update({"sparse": not played.terms.is_complete, "killed": played.kills, "colluders": played.terms.colluders})
    return count


def _tolerated(clients: int, colluders: int) -> int:
    """Return the most losses that a complete group tolerates, or a quarter of the clients where it may be sparse."""
    complete = clients - complete_shape(clients, colluders, LEAST).threshold
    return complete if clients <= MOST_COMPLETE else min(complete, clients // 4)
