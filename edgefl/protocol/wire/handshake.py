"""Proofs that both sides know a device's key. A proof is bound to the run, the client and both nonces.

    Hello      device -> server   device nonce
    Challenge  server -> device   server nonce, proof of the server
    Enrol      device -> server   proof of the device

A proof is HMAC-SHA256 (RFC 2104) under the device's key over six fields: "edgefl handshake 1", the role of the prover,
the run, the client in decimal, the device's nonce, the server's nonce. Each field comes after its length in 4
little-endian bytes. The role prevents that a proof of one side passes as a proof of the other side. The nonces are
fresh for each connection, so an old proof does not pass again. In a run without keys, the key is the secret with which
the device has enrolled, and proofs are empty while it enrols. The functions are pure: no randomness, no files.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

from edgefl.errors import AuthError

Role = Literal["device", "server"]

KEY_BYTES = 32
NONCE_BYTES = 32
DOMAIN = b"edgefl handshake 1"


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
