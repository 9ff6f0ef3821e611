"""TLS in a simulation: the contexts of both sides, and the device's end of a connection.

OpenSSL draws its own random numbers, so a connection has other bytes in each simulation of a seed. It has as many
bytes each time: signatures with Ed25519 have one length, and the server issues no tickets. No ciphertext is in a trace.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from edgefl.protocol.trust.keys import write_private
from edgefl.protocol.trust.tls import device_context, server_context

TRANSPORTS = ("plain", "tls")
RECEIVED_BYTES = 1 << 16  # most bytes that are taken from the network at a time
SERIAL = 1 << 62  # of the certificate. A random number would have another length now and then
LIFETIME = timedelta(days=30)  # by the real clock, which OpenSSL reads

Result = TypeVar("Result")


class Contexts(NamedTuple):
    """The contexts of the server and of the devices."""

    server: ssl.SSLContext
    device: ssl.SSLContext


@lru_cache
def contexts(host: str) -> Contexts:
    """Make the contexts for a server at an IP address, with a certificate that signs itself."""
    with tempfile.TemporaryDirectory(prefix="vopr-tls-") as folder:
        certificate, key = Path(folder) / "server.pem", Path(folder) / "server-tls.key"
        private = Ed25519PrivateKey.generate()
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        write_private(key, private.private_bytes(serialization.Encoding.PEM, *form))
        certificate.write_bytes(_signed(private, host).public_bytes(serialization.Encoding.PEM))
        return Contexts(server_context(certificate, key), device_context(certificate))


def _signed(private: Ed25519PrivateKey, host: str) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a simulated server")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(name, name, private.public_key(), SERIAL, now - LIFETIME, now + LIFETIME)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    basic = x509.BasicConstraints(ca=True, path_length=0)
    return builder.add_extension(address, critical=False).add_extension(basic, critical=True).sign(private, None)


class SecureLink:
    """A blocking socket with TLS over another blocking socket, in the place of an ssl.SSLSocket."""

    def __init__(self, link: Any, context: ssl.SSLContext, host: str) -> None:
        self._link, self._incoming, self._outgoing = link, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def handshake(self) -> None:
        """Agree with the server on keys. Raises OSError, of which ssl.SSLError is one, if that fails."""
        self._done(self._session.do_handshake)

    def settimeout(self, seconds: float | None) -> None:
        self._link.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._done(lambda: self._session.write(data))

    def recv(self, size: int) -> bytes:
        """Return the next bytes, or b"" at the end, as an SSLSocket does that suppresses ragged ends."""
        try:
            return self._done(lambda: self._session.read(size))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def _done(self, call: Callable[[], Result]) -> Result:
        """Call until the session needs no more bytes from the server, and send what it has to say."""
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._link.recv(RECEIVED_BYTES)
                self._incoming.write(data) if data else self._incoming.write_eof()
            except ssl.SSLError:
                self._flush()  # it tells the server why
                raise
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._link.sendall(data)

    def __enter__(self) -> SecureLink:
        return self

    def __exit__(self, *error: object) -> None:
        self._link.__exit__(*error)


def secured(link: Any, context: ssl.SSLContext, host: str, timeout_s: float | None) -> SecureLink:
    """Return a link with TLS over this one, after a handshake whose waits have a limit. Raises OSError."""
    secure = SecureLink(link, context, host)
    link.settimeout(timeout_s)
    try:
        secure.handshake()
    except BaseException:
        link.__exit__()
        raise
    return secure
