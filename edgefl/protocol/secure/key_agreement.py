"""Keys of X25519 (RFC 7748), and keys that HKDF-SHA256 (RFC 5869) derives from a secret for one purpose.

A derived key belongs to a context, which is the digest of a group's terms (group_terms.py), to a purpose, and to
clients. So a key of one run, round, group or purpose is never the key of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Purpose = Literal[
    "channel private key",
    "mask private key",
    "own seed",
    "polynomial of mask key",
    "polynomial of own seed",
    "channel",
    "pairwise mask",
    "own mask",
]

KEY_BYTES = 32
SHA256 = hashes.SHA256()


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return 32 bytes that HKDF-SHA256 derives from a secret."""
    return HKDF(SHA256, KEY_BYTES, salt, info).derive(secret)


def derived(secret: bytes, context: bytes, purpose: Purpose, clients: Iterable[int] = ()) -> bytes:
    """Return the 32 bytes of a key for one purpose of a group.

    secret   32 bytes of high entropy
    context  digest of the group's terms
    clients  ids of the clients whom the key belongs to, if their order and number do not follow from the secret
    """
    ids = b"".join([client.to_bytes(8, "little") for client in clients])
    return hkdf(secret, context, b"edgefl secure 1 " + purpose.encode() + b"\0" + ids)


class AgreementKey:
    """A private key of X25519, whose bytes no text shows.

    public  the 32 bytes of the public key
    """

    def __init__(self, private: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    def agreed(self, peer: bytes) -> bytes:
        """Return the 32 bytes that this key and the peer's public key agree on.

        Raises  ValueError if the peer's key is a point of low order, which leaves nothing secret.
        """
        return self._key.exchange(X25519PublicKey.from_public_bytes(peer))

    def pair_key(self, peer: bytes, context: bytes, purpose: Purpose, clients: tuple[int, int]) -> bytes:
        """Return the key of two clients for one purpose. Both clients get it, whatever the order of their ids is."""
        return derived(self.agreed(peer), context, purpose, sorted(clients))
