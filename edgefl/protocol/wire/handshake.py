"""Proofs that both sides know a device's key. A proof is bound to the run, the client and both nonces.

    Hello      device -> server   device nonce
    Challenge  server -> device   server nonce, proof of the server
    Enrol      device -> server   proof of the device

A proof is HMAC-SHA256 (RFC 2104) under the device's key over six fields: "edgefl handshake 1", the role of the prover,
the run, the client in decimal, the device's nonce, the server's nonce. Each field comes after its length in 4
little-endian bytes. The role prevents that a proof of one side passes as a proof of the other side. The nonces are
fresh for each connection, so an old proof does not pass again. In a run without keys, the key is the secret with which
the device has enrolled, and proofs are empty while it enrols. The functions are pure: no randomness, no files.

A client may have two keys for a time. The server proves first, and so has to know which key the device has: the last 8
bytes of the device's nonce are the key's mark, an HMAC over the 24 random bytes before the mark. A mark tells nothing
to whoever does not know the key. Devices of edgefl before 28 November 2026 have nonces of 32 random bytes without it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Literal

from edgefl.errors import AuthError

Role = Literal["device", "server"]

KEY_BYTES = 32
NONCE_BYTES = 32
MARK_BYTES = 8
DOMAIN = b"edgefl handshake 1"
MARK_DOMAIN = b"edgefl key mark 1"


def proof(key: bytes | None, role: Role, run: str, client: int, device_nonce: bytes, server_nonce: bytes) -> bytes:
    """Return the 32 bytes by which `role` shows that it knows the key of `client`, or b"" if `key` is None.

    Raises  ValueError if the key or a nonce does not have 32 bytes.
    """
    if key is None:
        return b""
    for name, value, size in (
        ("key", key, KEY_BYTES),
        ("device_nonce", device_nonce, NONCE_BYTES),
        ("server_nonce", server_nonce, NONCE_BYTES),
    ):
        if len(value) != size:
            raise ValueError(f"{name} of {len(value)} bytes; expected {size}")
    fields = (DOMAIN, role.encode(), run.encode(), str(client).encode(), device_nonce, server_nonce)
    return hmac.digest(key, b"".join(len(field).to_bytes(4, "little") + field for field in fields), hashlib.sha256)


def marked(nonce: bytes, key: bytes | None) -> bytes:
    """Return the nonce of a device, 32 random bytes, with the mark of its key in place of the last 8 bytes.

    key  key of the device. None: it has none, and the nonce stays as it is
    """
    return nonce if key is None else nonce[:-MARK_BYTES] + _mark(key, nonce)


def key_of(nonce: bytes, keys: Sequence[bytes]) -> bytes:
    """Return the key of a client that the nonce of its device has the mark of, or the first key if there is no mark."""
    return next((key for key in keys if hmac.compare_digest(_mark(key, nonce), nonce[-MARK_BYTES:])), keys[0])


def _mark(key: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, MARK_DOMAIN + nonce[:-MARK_BYTES], hashlib.sha256)[:MARK_BYTES]


def check(expected: bytes, given: bytes, who: str) -> None:
    """Raise AuthError, whose message begins with `who`, unless `given` is the `expected` proof of that side.

    The bytes are compared in constant time. In a run without keys `expected` is empty, and only an empty proof passes.
    """
    if len(given) != len(expected):
        raise AuthError(f"{who}: proof of {len(given)} bytes; expected {_meaning(len(expected))}")
    if not hmac.compare_digest(given, expected):
        raise AuthError(f"{who}: proof {given[:4].hex()}... is wrong; expected one made with the key of that client")


def _meaning(size: int) -> str:
    return f"{size}, made with the key of that client" if size else "no proof, as this side has no key"
