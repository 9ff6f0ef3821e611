"""The decision who may see the page of a run. Pure: the headers of a request come in, a decision goes out.

A page on loopback needs no token, but a request must name the loopback host. So a web site that makes its own name
stand for 127.0.0.1 (DNS rebinding) cannot read the page. A page that other machines reach needs a token. The token
comes as `Authorization: Bearer`, or once as `?token=`, which sets a cookie that only the page itself gets.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Literal, Protocol


class Headers(Protocol):
    """The headers of a request, by name in any case."""

    def get(self, name: str, default: str, /) -> str: ...


Decision = Literal["allowed", "allowed, with a cookie", "token", "host"]
LEAST_TOKEN = 16  # characters of a token at least


@dataclass(frozen=True)
class AccessRules:
    """The proofs that a request must show.

    token     token that a request must show. None: no token is asked for
    loopback  whether the page can be reached from this machine alone, so that the Host header must name this machine
    port      port of the page. It is a part of the cookie's name, since cookies do not know ports
    is_tls    whether the cookie is sent over TLS only
    """

    token: str | None
    loopback: bool
    port: int
    is_tls: bool = False

    def decide(self, headers: Headers, query: Mapping[str, str]) -> Decision:
        """Return whether the request may see the page, and what it lacks if not."""
        if self.loopback and not _names_loopback(headers.get("Host", "")):
            return "host"
        if self.token is None:
            return "allowed"
        kind, _, given = headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and _equal(given.strip(), self.token):
            return "allowed"
        if _equal(self._cookie_of(headers.get("Cookie", "")), self._cookie):
            return "allowed"
        return "allowed, with a cookie" if _equal(query.get("token", ""), self.token) else "token"

    @property
    def set_cookie(self) -> str:
        """The header's value that lets the browser in from now on."""
        secure = "; Secure" if self.is_tls else ""
        return f"{self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict{secure}"

    @property
    def _name(self) -> str:
        return f"edgefl_page_{self.port}"

    @property
    def _cookie(self) -> str:
        """The value of the cookie, which proves the token and is not the token."""
        return hmac.new((self.token or "").encode(), b"edgefl page", hashlib.sha256).hexdigest()

    def _cookie_of(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._name)
        except CookieError:
            return ""
        return "" if found is None else found.value


def _equal(given: str, expected: str) -> bool:
    """Compare in a time that does not tell where the two texts differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _names_loopback(host: str) -> bool:
    """Return whether a Host header names this machine's loopback, with or without a port."""
    name, bracket, _ = host.rpartition("]")
    name = name.removeprefix("[") if bracket else host.rpartition(":")[0] if host.count(":") == 1 else host
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
