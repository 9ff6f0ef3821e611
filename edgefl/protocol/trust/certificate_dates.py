"""Whether a server's certificate is valid now, and for how long: said before a run starts. Not TLS itself (tls.py).

Devices check the certificate when they connect, so with one that has expired no device ever gets in.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path

SOON_DAYS = 14.0
DAY_S = 86400.0


def expiry(certificate: Path, now: float) -> str:
    """A sentence about the dates of a PEM certificate; "" if the dates need no sentence.

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
    """Seconds since 1970 from which and until which it is valid; None where this Python cannot read certificates."""
    read = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)
    if read is None:
        return None
    try:
        found = read(str(certificate))
        return ssl.cert_time_to_seconds(found["notBefore"]), ssl.cert_time_to_seconds(found["notAfter"])
    except (OSError, KeyError, ValueError):
        return None  # the TLS context has accepted the file; its dates are not in a form that is read here


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
