"""Proofs: golden bytes against an HMAC written out by hand, and every way not to have the key."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from edgefl.errors import AuthError
from edgefl.protocol.wire.handshake import check, proof

KEY, DEVICE_NONCE, SERVER_NONCE = bytes(range(32)), b"d" * 32, b"s" * 32
FACTS: dict[str, Any] = {
    "key": KEY, "role": "device", "run": "run-1", "client": 3, "device_nonce": DEVICE_NONCE,
    "server_nonce": SERVER_NONCE,
}  # fmt: skip


def test_proof_is_hmac_sha256_of_the_fields_with_their_lengths() -> None:
    fields = [b"edgefl handshake 1", b"device", b"run-1", b"3", DEVICE_NONCE, SERVER_NONCE]
    text = b"".join(bytes([len(field), 0, 0, 0]) + field for field in fields)
    inner, outer = (bytes(byte ^ pad for byte in KEY.ljust(64, b"\0")) for pad in (0x36, 0x5C))  # RFC 2104
    assert proof(**FACTS) == hashlib.sha256(outer + hashlib.sha256(inner + text).digest()).digest()


def test_proof_of_the_device_passes() -> None:
    check(proof(**FACTS), proof(**FACTS), "client 3")


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("key", bytes(32)),
        ("role", "server"),  # a server's proof sent back to it
        ("run", "run-2"),
        ("client", 4),
        ("device_nonce", b"e" * 32),
        ("server_nonce", b"t" * 32),  # a proof recorded from an earlier connection
    ],
)
def test_proof_for_another_fact_is_refused(fact: str, value: object) -> None:
    given = proof(**{**FACTS, fact: value})
    with pytest.raises(AuthError) as error:
        check(proof(**FACTS), given, "client 3")
    expected = f"client 3: proof {given[:4].hex()}... is wrong; expected one made with the key of that client"
    assert str(error.value) == expected


def test_bytes_do_not_move_between_fields() -> None:
    assert proof(**{**FACTS, "run": "run-13", "client": 1}) != proof(**{**FACTS, "run": "run-1", "client": 31})


def test_missing_proof_is_refused() -> None:
    with pytest.raises(AuthError) as error:
        check(proof(**FACTS), b"", "client 3")
    assert str(error.value) == "client 3: proof of 0 bytes; expected 32, made with the key of that client"


def test_prefix_of_the_proof_is_refused() -> None:
    with pytest.raises(AuthError, match="proof of 31 bytes; expected 32"):
        check(proof(**FACTS), proof(**FACTS)[:31], "client 3")


def test_without_a_key_proofs_are_empty() -> None:
    assert proof(**{**FACTS, "key": None}) == b""
    check(b"", b"", "client 3")


def test_proof_where_no_key_is_known_is_refused() -> None:
    with pytest.raises(AuthError, match="the server: proof of 32 bytes; expected no proof, as this side has no key"):
        check(b"", proof(**FACTS), "the server")


@pytest.mark.parametrize("fact", ["key", "device_nonce", "server_nonce"])
def test_short_key_or_nonce_is_an_error_of_ours(fact: str) -> None:
    with pytest.raises(ValueError, match=f"{fact} of 31 bytes; expected 32"):
        proof(**{**FACTS, fact: bytes(31)})
