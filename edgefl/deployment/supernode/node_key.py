"""The key of a node: how its file is read, and how it signs a call. libcrypto.py makes the signature, or `cryptography`
where the system has no libcrypto.

    -----BEGIN OPENSSH PRIVATE KEY-----   made by `ssh-keygen -t ecdsa -b 384 -N ''`, as in Flower's guide
    -----BEGIN (EC) PRIVATE KEY-----      PKCS #8 or SEC 1

flwr signs only the time of the call, in ISO 8601, and neither the route nor the body. So without TLS anybody between
the two sides can replay or change calls within five minutes. This follows from Flower's protocol.
"""

from __future__ import annotations

import base64
import binascii
import struct
from datetime import datetime
from pathlib import Path
from typing import Protocol

from edgefl.deployment.supernode import libcrypto
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import check_private

PUBLIC_KEY, TIMESTAMP, SIGNATURE = "flwr-public-key", "flwr-timestamp", "flwr-signature"  # headers
OPENSSH = b"openssh-key-v1\0"
CURVES = {  # by name in OpenSSH: object identifier in DER, bytes of a private key
    b"nistp256": (bytes.fromhex("06082a8648ce3d030107"), 32),
    b"nistp384": (bytes.fromhex("06052b81040022"), 48),
    b"nistp521": (bytes.fromhex("06052b81040023"), 66),
}
LABELS = ("PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY")
MOST_BYTES = 1 << 14


class Signer(Protocol):
    """A private key of any library."""

    def public(self) -> bytes: ...

    def sign(self, data: bytes) -> bytes: ...


class NodeKey:
    """The key of a node, from DER: PKCS #8 or SEC 1. Raises RequestError if it is not a key on a NIST curve."""

    def __init__(self, der: bytes) -> None:
        self._signer = signer(der)
        public = self._signer.public()
        if not any(curve in public for curve, _ in CURVES.values()):
            raise RequestError(
                "a key on another curve; expected P-256, P-384 or P-521, which Flower's SuperLink accepts"
            )
        lines = base64.b64encode(public).decode()
        body = "\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
        self.public = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n".encode()

    def headers(self, now: datetime) -> dict[str, str]:
        """Return the HTTP headers that sign a call at this time, which has its time zone."""
        stamp = now.isoformat()
        return {
            PUBLIC_KEY: base64.b64encode(self.public).decode(),
            TIMESTAMP: stamp,
            SIGNATURE: base64.b64encode(self._signer.sign(stamp.encode())).decode(),
        }


def signer(der: bytes) -> Signer:
    """Return a signer by libcrypto, or otherwise by `cryptography`.

    Raises  RequestError if there is neither of them, or if `der` is not a key.
    """
    if libcrypto.is_there():
        return libcrypto.LibcryptoKey(der)
    return _by_package(der)


def generate() -> bytes:
    """Make a private key on P-384, and return it in DER."""
    if libcrypto.is_there():
        return libcrypto.generate()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_node_key(path: Path) -> NodeKey:
    """Read the key in a file. Raises RequestError naming the file if it is missing, readable by others, or not a plain
    key.
    """
    check_private(path)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise RequestError(f"--node-key {path}: {error.strerror}; expected a file that can be read") from None
    try:
        return NodeKey(der_of(text))
    except RequestError as error:
        raise RequestError(f"--node-key {path}: {error}") from None


def der_of(text: bytes) -> bytes:
    """Return the key of a PEM file as DER. Raises RequestError if the file has no key, or an encrypted key."""
    for label in LABELS:
        begin, end = f"-----BEGIN {label}-----".encode(), f"-----END {label}-----".encode()
        _, found, rest = text.partition(begin)
        body, closed, _ = rest.partition(end)
        if found and closed:
            if b":" in body:
                raise RequestError("an encrypted key; expected one without a passphrase")
            try:
                data = base64.b64decode(b"".join(body.split()), validate=True)
            except binascii.Error:
                raise RequestError("not base64 between its lines BEGIN and END; expected a PEM file") from None
            return _openssh(data) if label.startswith("OPENSSH") else data
    raise RequestError(f"no private key in it; expected a PEM file with {', '.join(LABELS[:-1])} or {LABELS[-1]}")


def _openssh(data: bytes) -> bytes:
    """Return an OpenSSH key as SEC 1. Raises RequestError if it is not an ECDSA key, or is encrypted."""
    wrong = RequestError("not an OpenSSH key of type ecdsa; expected what `ssh-keygen -t ecdsa -b 384 -N ''` makes")
    if not data.startswith(OPENSSH):
        raise wrong
    try:
        cipher, _, _, rest = _strings(data[len(OPENSSH) :], 3)
        if cipher != b"none":
            raise RequestError("an encrypted key; expected one without a passphrase")
        _, private, _ = _strings(rest[4:], 2)
        kind, curve, point, number, _ = _strings(private[8:], 4)
    except struct.error:
        raise wrong from None
    if curve not in CURVES or kind != b"ecdsa-sha2-" + curve:
        raise wrong
    name, size = CURVES[curve]
    secret = number.lstrip(b"\0").rjust(size, b"\0")
    inner = b"\x02\x01\x01" + _tlv(4, secret) + _tlv(0xA0, name) + _tlv(0xA1, _tlv(3, b"\0" + point))
    return _tlv(0x30, inner)


def _strings(data: bytes, count: int) -> list[bytes]:
    """Return `count` strings, each preceded by its length, and the rest. Raises struct.error if there are fewer."""
    out = []
    for _ in range(count):
        (length,) = struct.unpack_from(">I", data)
        if length > len(data) - 4:
            raise struct.error("a string that is cut off")
        out.append(data[4 : 4 + length])
        data = data[4 + length :]
    return [*out, data]


def _tlv(tag: int, content: bytes) -> bytes:
    """Return a tag, a length below 256 and the content, in DER."""
    length = bytes([len(content)]) if len(content) < 128 else bytes([0x81, len(content)])
    return bytes([tag]) + length + content


def _by_package(der: bytes) -> Signer:
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError:
        raise RequestError(
            "neither libcrypto nor the package cryptography is installed; expected one of them, to sign with"
        ) from None
    try:
        key = serialization.load_der_private_key(der, None)
    except (ValueError, TypeError) as error:
        raise RequestError(f"not an EC private key ({error}); expected one on P-256, P-384 or P-521") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise RequestError("not an EC private key; expected one on curve P-256, P-384 or P-521")
    own = key

    class CryptographyKey:
        """A key that the package `cryptography` holds."""

        def public(self) -> bytes:
            return own.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )

        def sign(self, data: bytes) -> bytes:
            return own.sign(data, ec.ECDSA(hashes.SHA256()))

    return CryptographyKey()
