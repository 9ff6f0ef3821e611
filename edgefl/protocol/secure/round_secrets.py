"""The secrets of a client in one group of one round. They follow from one random seed of 32 bytes.

So a device that was killed makes the same messages again from its saved seed, and draws nothing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from edgefl.protocol.secure.key_agreement import AgreementKey, Purpose, derived
from edgefl.protocol.secure.mask_stream import stream_bytes
from edgefl.protocol.secure.shamir import random_bytes_needed, split

SEED_BYTES = 32


class RoundSecrets:
    """The private keys and the own seed, whose bytes no text shows.

    channel   key for the encryption of shares
    mask      key for pairwise masks, which is opened if the client is lost
    own_seed  seed of the own mask, which is opened if the client answers
    """

    def __init__(self, seed: bytes, context: bytes) -> None:
        self._seed, self._context = seed, context
        self._mask_private = derived(seed, context, "mask private key")
        self.channel = AgreementKey(derived(seed, context, "channel private key"))
        self.mask = AgreementKey(self._mask_private)
        self.own_seed = derived(seed, context, "own seed")

    def shares(self, threshold: int, points: Sequence[int]) -> list[bytes]:
        """Return for each point the share of the own seed, followed by the share of the mask's private key."""
        own = split(self.own_seed, threshold, points, self._random("polynomial of own seed", threshold))
        mask = split(self._mask_private, threshold, points, self._random("polynomial of mask key", threshold))
        return [a + b for a, b in zip(own, mask, strict=True)]

    def _random(self, purpose: Purpose, threshold: int) -> bytes:
        return stream_bytes(derived(self._seed, self._context, purpose), random_bytes_needed(threshold))


def own_digest(own_seed: bytes) -> bytes:
    """Return the digest by which the server checks an own seed that it opened."""
    return hashlib.sha256(b"edgefl secure own seed 1" + own_seed).digest()
