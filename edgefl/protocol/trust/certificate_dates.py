"""The dates of a server's certificate: whether it is valid now, and for how long. TLS itself is in tls.py.

The server tells its user before a run starts. Devices check the certificate when they connect, so no device can connect
after the certificate has expired.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path

SOON_DAYS = 14.0
DAY_S = 86400.0


def expiry(certificate: Path, now: float) -> str:
    """Return a sentence about the dates of a PEM certificate, or "" if the dates need no sentence.

    now  seconds since 1970
    """
    dates = _dates(certificate)
    if dates is None:
        return ""
    begins, ends = dates
    remedy = "no device can connect; expected a valid certificate, as `edgefl keys --host` writes it"
    if now >= ends:
        return f"--tls-cert {certificate} expired on {_day(ends)}: {remedy}"
    if now < begins:
        return f"--tls-cert {certificate} is valid from {_day(begins)} on: {remedy}"
    if now > ends - SOON_DAYS * DAY_S:
        days = (ends - now) / DAY_S
        return f"--tls-cert {certificate} expires on {_day(ends)}, in {days:.1f} days: no device can connect after that"
    return ""


def _dates(certificate: Path) -> tuple[float, float] | None:
    """Return the first and the last second of validity since 1970, or None if this Python cannot read certificates."""
    read = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)
    if read is None:
        return None
    try:
        found = read(str(certificate))
        return ssl.cert_time_to_seconds(found["notBefore"]), ssl.cert_time_to_seconds(found["notAfter"])
    except (OSError, KeyError, ValueError):
        return None  # the TLS context has accepted the file, but this function cannot read the form of its dates


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
