"""TLS for both sides of a run: the contexts, from files, and what a failed handshake means. Not the sockets.

TLS 1.2 or later. A device always checks the server's certificate and host name; the server asks for client certificates
if it is given their authority. Who may take part is decided by device keys (keys.py), with or without certificates.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import check_private


def server_context(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """The server's side. With `client_authority` only devices whose certificate it signed get in.

    Raises  RequestError naming the file that is missing, readable by others or of the wrong content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # no device resumes a session: tickets would be bytes, memory and time for nothing
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_pair(context, certificate, key)
    if client_authority is not None:
        _load_authority(context, client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def device_context(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """The device's side. `authority` None stands for the system's authorities.

    Raises  RequestError as server_context, or if only one of certificate and key is given.
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
        _load_pair(context, certificate, key)
    return context


def fault(error: ssl.SSLError) -> str | None:
    """Why trying again would not help if it happens time after time, in words for the device's user; None if the
    connection merely broke, or bytes were damaged on their way.
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


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    check_private(key)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # SSLError is one
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
