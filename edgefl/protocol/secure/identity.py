"""A device's identity: a key of Ed25519 (RFC 8032), and the messages that it signs.

roster.py says whose key is whose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

IDENTITY_BYTES = 32
SIGNATURE_BYTES = 64

Statement = Literal["roster", "round keys", "answered"]


class SigningIdentity:
    """The private half of an identity, whose bytes no text shows.

    public  the 32 bytes that stand in the roster
    """

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def make(cls, draw: Callable[[int], bytes]) -> SigningIdentity:
        """Make a new identity. `draw` returns as many random bytes as its argument says."""
        return cls(draw(IDENTITY_BYTES))

    def private_bytes(self) -> bytes:
        """Return the 32 secret bytes, which the device keeps in a file that its owner alone can read."""
        return self._key.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of 64 bytes. The same message gives the same signature."""
        return self._key.sign(message)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the identity with this public half has signed the message."""
    try:
        _public_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=1 << 12)
def _public_key(public: bytes) -> Ed25519PublicKey:
    """Return the key of these 32 bytes, which is kept because the same clients sign in every round."""
    return Ed25519PublicKey.from_public_bytes(public)


def statement(kind: Statement, *fields: bytes) -> bytes:
    """Return the bytes to sign: the kind of statement and its fields, each after its length in 4 bytes."""
    parts = (b"edgefl secure 1", kind.encode(), *fields)
    return b"".join([len(part).to_bytes(4, "little") + part for part in parts])
