"""TLS for both sides of a run: contexts made from files, and the meaning of a failed handshake. It opens no sockets.

The contexts require TLS 1.2 or later. A device always checks the certificate and the host name of the server. The
server asks for client certificates if it is given their authority. Device keys (keys.py) decide who may take part, with
or without certificates.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import check_private


def server_context(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of the server. With `client_authority`, only devices whose certificate it signed get in.

    Raises  RequestError naming the file that is missing, readable by others or of the wrong content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # no device resumes a session, so tickets would only cost bytes, memory and time
    context.options |= ssl.OP_NO_RENEGOTIATION
    load_pair(context, certificate, key)
    if client_authority is not None:
        _load_authority(context, client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def device_context(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a device. If `authority` is None, the authorities of the system are trusted.

    Raises  RequestError as server_context does, or if only one of certificate and key is given.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority is None:
        context.load_default_certs()
    else:
        _load_authority(context, authority)
    if (certificate is None) != (key is None):
        raise RequestError(f"certificate {certificate} with key {key}; expected both or neither")
    if certificate is not None and key is not None:
        load_pair(context, certificate, key)
    return context


def fault(error: ssl.SSLError) -> str | None:
    """Say to the device's user why another attempt would not help if the error comes again and again.

    The result is None if the connection merely broke, or if bytes were damaged on their way.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted ({error.verify_message}); expected a valid one for this host"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return None
    reason = error.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "the server does not speak TLS; expected a server with a certificate, or no --tls"
    if "CERTIFICATE" in reason:
        said = reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
        return f"the server refuses this device's certificate ({said}); expected --tls-cert signed by its authority"
    return None


def load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load a certificate and its key into a context. The context does not change if they do not belong together.

    Raises  RequestError naming the file that is missing, readable by others or of the wrong content.
    """
    check_private(key)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)
    except OSError as error:  # SSLError is a subclass
        raise RequestError(
            f"certificate {certificate} with key {key}: {_why(error)}; expected PEM files that belong together"
        ) from None


def _load_authority(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        raise RequestError(f"authority {authority}: {_why(error)}; expected a PEM certificate") from None


def _why(error: OSError) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or str(error)
