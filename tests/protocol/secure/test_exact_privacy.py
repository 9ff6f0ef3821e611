"""Two inputs with equal sums give one transcript, byte for byte, under masks that differ where nobody can see them.

Masks stand in a table. A uniform table is as likely as the table that is constructed here, so a server that sees the
whole transcript, and a colluder with it, cannot tell the two inputs apart.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.secure.played_round import Federation, PlayedRound
from edgefl.protocol.secure import mask_stream
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms

FEDERATION = Federation.of(list(range(6)), 1)
Vectors = dict[int, np.ndarray[Any, Any]]
COLLUDER, LOST = 4, 5  # client 5 is lost after it has shared its secrets


class TabledStream:
    """A key stream whose bytes stand in a table."""

    def __init__(self, mask: bytes) -> None:
        self.rest = mask

    def update_into(self, zeros: memoryview, chunk: bytearray) -> None:
        size = len(zeros)
        chunk[:size], self.rest = self.rest[:size], self.rest[size:]


def terms_of(bits: int) -> GroupTerms:
    return group_terms(FEDERATION.roster, "run", 3, "draw", list(range(6)), 4, bits, losses=1, colluders=1)


def played(vectors: Vectors, bits: int, masks: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> PlayedRound:
    """Play the round with the masks of the table, and with the real key stream for seeds that are not in it."""
    real = mask_stream.counter_mode

    def tabled(seed: bytes, start: bytes) -> Any:
        return TabledStream(masks[seed]) if seed in masks else real(seed, start)

    with monkeypatch.context() as patch:
        patch.setattr(mask_stream, "counter_mode", tabled)
        found = PlayedRound(terms_of(bits), FEDERATION, vectors, {LOST: 2}, seed=5)
        found.opened = found.play()
    return found


def pair_seeds(terms: GroupTerms, vectors: Vectors) -> dict[tuple[int, int], bytes]:
    """Return the seed of the mask between the honest clients 0 and 1, 1 and 2, 2 and 3."""
    begun = PlayedRound(terms, FEDERATION, vectors, {}, seed=5).members
    secrets = [begun[client]._live_secrets() for client in range(4)]
    return {
        (a, b): secrets[a].mask.pair_key(secrets[b].mask.public, terms.context, "pairwise mask", (a, b))
        for a, b in pairwise(range(4))
    }


@pytest.mark.parametrize("bits", [32, 64])
def test_equal_sums_give_equal_transcripts(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, draw = np.dtype(f"<u{bits // 8}"), random.Random(bits)
    numbers = np.random.default_rng(bits)
    first = {client: numbers.integers(0, 2**16, 4, dtype) for client in range(6)}
    second = {client: numbers.integers(0, 2**16, 4, dtype) for client in range(6)}
    second[3] = sum((first[client] for client in range(4)), np.zeros(4, dtype)) - second[0] - second[1] - second[2]
    second[COLLUDER] = first[COLLUDER]
    seeds = pair_seeds(terms_of(bits), first)
    masks = {pair: np.frombuffer(draw.randbytes(4 * bits // 8), dtype) for pair in seeds}
    moved, others = np.zeros(4, dtype), {}
    for pair in seeds:  # along the chain, each mask takes up what differs in the vectors before it
        moved = moved + first[pair[0]] - second[pair[0]]
        others[pair] = masks[pair] + moved
    one = played(first, bits, {seeds[pair]: masks[pair].tobytes() for pair in seeds}, monkeypatch)
    two = played(second, bits, {seeds[pair]: others[pair].tobytes() for pair in seeds}, monkeypatch)
    assert any((first[client] != second[client]).any() for client in range(4))
    assert one.transcript == two.transcript
    assert len(one.transcript) > 30
    assert (one.opened == two.opened).all()
    assert (one.opened == sum((first[client] for client in range(5)), np.zeros(4, dtype))).all()


def test_another_sum_gives_another_transcript_under_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = {client: np.full(4, client, np.uint32) for client in range(6)}
    one = played(vectors, 32, {}, monkeypatch)
    two = played({**vectors, 0: np.ones(4, np.uint32)}, 32, {}, monkeypatch)
    assert one.transcript != two.transcript
    assert (one.opened != two.opened).all()
