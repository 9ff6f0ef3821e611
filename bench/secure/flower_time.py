"""The steps of a client in Flower's SecAgg+, as calls of Flower's functions, on the same vector. Flower 1.42 has them.

The order of the calls is that of its client modifier. The vector is taken as integers already, so that the time has
neither Flower's quantisation nor ours. Flower's protocol has no signatures and no consistency step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    parameters_addition,
    parameters_mod,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.secaggplus_utils import (
    pseudo_rand_gen,
    share_keys_plaintext_concat,
    share_keys_plaintext_separate,
)
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)

from bench.secure.played_round import PlayedRound

ME = 0
SEED = bytes(range(32))


class FlowerDevice:
    """One client of Flower's SecAgg+, with the clients and losses of a round of ours."""

    def __init__(self, played: PlayedRound) -> None:
        state = played.group.state
        self.threshold, self.modulus = played.terms.threshold, 1 << played.terms.bits
        self.keyed, self.sharers = [*state.keys], [*state.shares]
        self.answered = state.vectors
        self.pairs = {client: (generate_key_pairs(), generate_key_pairs()) for client in self.keyed}
        share = create_shares(SEED, self.threshold, len(self.keyed))[ME]
        key = create_shares(private_key_to_bytes(self.pairs[ME][0][0]), self.threshold, len(self.keyed))[ME]
        mine = self.pairs[ME][1][1]
        self.sealed = {
            client: encrypt(
                generate_shared_key(self.pairs[client][1][0], mine), share_keys_plaintext_concat(client, ME, share, key)
            )
            for client in self.sharers
            if client != ME
        }
        self.public = {
            client: (public_key_to_bytes(one[1]), public_key_to_bytes(two[1]))
            for client, (one, two) in self.pairs.items()
        }

    def take_part(self, vector: np.ndarray[Any, Any]) -> list[Any]:
        """Take all steps, and return the masked vector and the shares that are opened."""
        for _ in range(2):
            private, public = generate_key_pairs()
            private_key_to_bytes(private), public_key_to_bytes(public)
        (mask_key, channel_key) = (private_key_to_bytes(pair[0]) for pair in self.pairs[ME])
        shares = {}
        seeds, keys = (create_shares(each, self.threshold, len(self.keyed)) for each in (SEED, mask_key))
        channels = {}
        for place, client in enumerate(self.keyed):
            if client == ME:
                shares[ME] = seeds[place], keys[place]
                continue
            theirs = bytes_to_public_key(self.public[client][1])
            channels[client] = generate_shared_key(bytes_to_private_key(channel_key), theirs)
            encrypt(channels[client], share_keys_plaintext_concat(ME, client, seeds[place], keys[place]))
        for client, sealed in self.sealed.items():
            shares[client] = share_keys_plaintext_separate(decrypt(channels[client], sealed))[2:]
        masked = self._masked([vector.astype(np.int64)], mask_key)
        return [masked, [shares[client][client not in self.answered] for client in shares]]

    def _masked(self, parameters: list[np.ndarray[Any, Any]], mask_key: bytes) -> list[np.ndarray[Any, Any]]:
        dimensions = [each.shape for each in parameters]
        parameters = parameters_addition(parameters, pseudo_rand_gen(SEED, self.modulus, dimensions))
        for client in self.sealed:
            theirs = bytes_to_public_key(self.public[client][0])
            seed = generate_shared_key(bytes_to_private_key(mask_key), theirs)
            mask = pseudo_rand_gen(seed, self.modulus, dimensions)
            combine = parameters_addition if client < ME else parameters_subtraction
            parameters = combine(parameters, mask)
        return parameters_mod(parameters, self.modulus)
