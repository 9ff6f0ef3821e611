"""Proofs that both sides know a device's key, bound to the run, the client and both nonces. Pure: no randomness, no
files.

    Hello      device -> server   device nonce
    Challenge  server -> device   server nonce, proof of the server
    Enrol      device -> server   proof of the device

A proof is HMAC-SHA256 under the device's key over six fields, each preceded by its length in 4 little-endian bytes:
"edgefl handshake 1", the role of the prover, the run, the client in decimal, the device's nonce, the server's nonce.
The role keeps one side's proof from passing as the other's; the nonces, fresh for each connection, keep an old one from
passing again. Where a run has no keys, the key is the secret that the device has enrolled with, and while it enrols
proofs are empty. Source: RFC 2104 (HMAC).
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
    """32 bytes by which `role` shows that it knows the key of `client`; empty if `key` is None.

    Raises  ValueError if the key or a nonce is not 32 bytes.
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
    """Raise AuthError, opening with `who` is to be believed, unless `given` is the `expected` proof of that side.

    The bytes are compared in constant time. An empty `expected` is for a run without keys: nothing else passes then.
    """
    if len(given) != len(expected):
        raise AuthError(f"{who}: proof of {len(given)} bytes; expected {_meaning(len(expected))}")
    if not hmac.compare_digest(given, expected):
        raise AuthError(f"{who}: proof {given[:4].hex()}... is wrong; expected one made with the key of that client")


def _meaning(size: int) -> str:
    return f"{size}, made with the key of that client" if size else "none, as this side has no key"
