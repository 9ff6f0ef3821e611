"""The server's last step: the secrets that the opened shares give, and the masks that they take out of the sum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from edgefl.errors import NotOpenedError
from edgefl.protocol.secure.group_messages import Opening
from edgefl.protocol.secure.group_terms import GroupTerms
from edgefl.protocol.secure.key_agreement import AgreementKey, derived
from edgefl.protocol.secure.key_list import RoundKeyList
from edgefl.protocol.secure.mask_stream import Vector, add_masks
from edgefl.protocol.secure.round_secrets import own_digest
from edgefl.protocol.secure.shamir import combine, weights_at_zero


def take_masks_out(
    total: Vector, terms: GroupTerms, found: RoundKeyList, lost: set[int], answered: set[int],
    openings: dict[int, Opening],
) -> None:  # fmt: skip
    """Take all masks out of the sum of the masked vectors, in place.

    lost      clients who shared their secrets and have not answered
    answered  clients whose vectors are in the sum
    openings  shares by the client who opened them
    Raises    NotOpenedError, before anything is changed, if the shares do not give a secret that is needed.
    """
    seeds, signs = [], []
    for client in sorted(answered):
        seeds.append(derived(_own_seed(client, terms, found, openings), terms.context, "own mask"))
        signs.append(-1)
    for client in sorted(lost):
        neighbours = [other for other in found.graph.neighbours(client) if other in answered]
        if neighbours:
            key = _mask_key(client, terms, found, openings)
            for other in neighbours:
                seeds.append(key.pair_key(found.keys[other].mask_key, terms.context, "pairwise mask", (client, other)))
                signs.append(-1 if other < client else 1)  # the one with the lower id had added the mask
    add_masks(total, seeds, signs)


def _own_seed(client: int, terms: GroupTerms, found: RoundKeyList, openings: dict[int, Opening]) -> bytes:
    shares = {holder: each.own[client] for holder, each in openings.items() if client in each.own}
    digest = found.keys[client].own_digest
    for secret in _secrets(shares, terms):
        if own_digest(secret) == digest:
            return secret
    raise _unopened(client, "own seed", len(shares), terms)


def _mask_key(client: int, terms: GroupTerms, found: RoundKeyList, openings: dict[int, Opening]) -> AgreementKey:
    shares = {holder: each.mask[client] for holder, each in openings.items() if client in each.mask}
    for secret in _secrets(shares, terms):
        key = AgreementKey(secret)
        if key.public == found.keys[client].mask_key:
            return key
    raise _unopened(client, "mask key", len(shares), terms)


def _unopened(client: int, what: str, shares: int, terms: GroupTerms) -> NotOpenedError:
    return NotOpenedError(
        f"{terms.name}: {shares} shares do not give the {what} of client {client}; "
        f"expected at least {terms.threshold} right ones"
    )


def _secrets(shares: dict[int, bytes], terms: GroupTerms) -> Iterator[bytes]:
    """Yield what as many shares as the threshold give, for each run of consecutive holders on a ring.

    A wrong share is in some runs alone. So it does no harm if there is one share more than the threshold.
    """
    holders = sorted(shares)
    spare = len(holders) - terms.threshold
    if spare < 0:
        return
    for start in range(len(holders) if spare else 1):
        chosen = sorted((holders[start:] + holders[:start])[: terms.threshold])
        try:
            yield combine([shares[each] for each in chosen], _weights(tuple(map(terms.point, chosen))))
        except ValueError:  # a wrong share, or shares of two secrets
            continue


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> list[int]:
    return weights_at_zero(points)
