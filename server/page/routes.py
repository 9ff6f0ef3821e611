"""The answers of the page's server to requests. Headers come in, status and bytes go out, and only the feed is read.

The server answers GET alone, and nothing here changes anything. Every answer forbids the browser to load from
elsewhere, to guess types, to frame the page and to keep it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from edgefl.server.page.access import AccessRules, Headers
from edgefl.server.page.markup import Markup
from edgefl.server.page.metrics_text import CONTENT_TYPE

EVENTS = "/events"
COMPRESSED = 32_768  # bytes from which on a body is compressed, if the visitor accepts that
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CLOSED = "default-src 'none'; frame-ancestors 'none'"  # the policy of every answer but the page
REFUSALS = {
    "token": (401, "a token is missing or wrong; expected Authorization: Bearer TOKEN, or ?token=TOKEN once"),
    "host": (403, "the Host header does not name this machine; expected 127.0.0.1 or localhost"),
}


class Feed(Protocol):
    """The protocol of the feed from which answers are made. feed.py has the feed."""

    @property
    def number(self) -> int: ...

    def state(self) -> bytes: ...

    def metrics(self) -> bytes: ...

    def health(self) -> tuple[bool, str]: ...


@dataclass(frozen=True)
class PageAnswer:
    """One answer. If `after` is a number, the body is an endless stream of later events instead of `body`."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None


class Routes:
    """The answers of one page."""

    def __init__(self, feed: Feed, rules: AccessRules, markup: Markup) -> None:
        self._feed, self._rules, self._markup = feed, rules, markup

    def get(self, target: str, headers: Headers) -> PageAnswer:
        """Return the answer to GET of this request target."""
        try:
            parts = urlsplit(target)
        except ValueError:
            return _text(400, "the address cannot be read")
        query = dict(parse_qsl(parts.query))
        decision = self._rules.decide(headers, query)
        if decision in REFUSALS:
            status, words = REFUSALS[decision]
            return _text(status, words, {"WWW-Authenticate": "Bearer"} if status == 401 else {})
        if parts.path != "/" and headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return _text(403, "another site sent the request; expected a request of the page itself")
        cookie = {"Set-Cookie": self._rules.set_cookie} if decision != "allowed" else {}
        answer = self._of(parts.path, query, headers)
        return PageAnswer(answer.status, answer.body, {**answer.headers, **cookie}, answer.after)

    def _of(self, path: str, query: Mapping[str, str], headers: Headers) -> PageAnswer:
        if path == "/":
            return _answer(200, self._markup.page, "text/html; charset=utf-8", headers, self._markup.policy)
        if path == "/state.json":
            return _answer(200, self._feed.state(), "application/json", headers)
        if path == EVENTS:
            return self._events(headers.get("Last-Event-ID", query.get("after", "")))
        if path == "/metrics":
            return _answer(200, self._feed.metrics(), CONTENT_TYPE, headers)
        if path == "/healthz":
            is_well, words = self._feed.health()
            body = json.dumps({"ok": is_well, "phase": words}).encode()
            return _answer(200 if is_well else 503, body, "application/json", headers)
        return _text(404, f"no {path[:80]!r} here; expected /, /state.json, /events, /metrics or /healthz")

    def _events(self, after: str) -> PageAnswer:
        number = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else self._feed.number
        answer = _answer(200, b"", "text/event-stream", {})
        return PageAnswer(200, b"", {**answer.headers, "X-Accel-Buffering": "no"}, number)


def _text(status: int, words: str, more: Mapping[str, str] = {}) -> PageAnswer:
    answer = _answer(status, f"{words}\n".encode(), "text/plain; charset=utf-8", {})
    return PageAnswer(status, answer.body, {**answer.headers, **more})


def _answer(status: int, body: bytes, kind: str, asked: Headers, policy: str = CLOSED) -> PageAnswer:
    headers = {"Content-Type": kind, "Content-Security-Policy": policy, **HEADERS}
    if len(body) >= COMPRESSED and "gzip" in asked.get("Accept-Encoding", ""):
        body, headers = gzip.compress(body, 1), {**headers, "Content-Encoding": "gzip"}
    return PageAnswer(status, body, headers)
