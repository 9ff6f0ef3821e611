"""The two shares that a client gives another client, encrypted with AES-256-GCM (NIST SP 800-38D) past the server.

A pair of clients has a key for one round and one group. Each of the two clients encrypts one message with it, so the
sender's id is a nonce that no second message has. The sender, the receiver and the group are authenticated, too.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from edgefl.protocol.secure.prime_field import ELEMENT_BYTES

NONCE_BYTES = 12
TAG_BYTES = 16
SHARES_BYTES = 2 * ELEMENT_BYTES  # the share of the own seed, and the share of the mask's private key
SEALED_BYTES = SHARES_BYTES + TAG_BYTES


def encrypt(key: bytes, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
    """Return the ciphertext of AES-256-GCM and its tag of 16 bytes."""
    return AESGCM(key).encrypt(nonce, plain, associated)


def decrypt(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
    """Return the plain bytes. Raises ValueError if key, nonce, ciphertext or associated bytes differ from encrypt's."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, associated)
    except InvalidTag:
        raise ValueError("the tag does not fit") from None


def seal(key: bytes, context: bytes, sender: int, receiver: int, shares: bytes) -> bytes:
    """Encrypt the sender's two shares for the receiver. A key may seal one message of each of its two clients."""
    return encrypt(key, _nonce(sender), shares, _associated(context, sender, receiver))


def unseal(key: bytes, context: bytes, sender: int, receiver: int, sealed: bytes) -> bytes:
    """Return the two shares. Raises ValueError unless this sender sealed them for this receiver in this group."""
    shares = decrypt(key, _nonce(sender), sealed, _associated(context, sender, receiver))
    if len(shares) != SHARES_BYTES:
        raise ValueError(f"{len(shares)} bytes of shares; expected {SHARES_BYTES}")
    return shares


def _nonce(sender: int) -> bytes:
    return sender.to_bytes(NONCE_BYTES, "little")


def _associated(context: bytes, sender: int, receiver: int) -> bytes:
    return context + sender.to_bytes(8, "little") + receiver.to_bytes(8, "little")
