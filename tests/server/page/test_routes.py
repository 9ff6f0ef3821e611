"""The answers of the page's server, without a socket."""

from __future__ import annotations

import gzip

import pytest

from edgefl.server.page.access import AccessRules
from edgefl.server.page.markup import Markup
from edgefl.server.page.routes import COMPRESSED, Routes

HOST = {"Host": "127.0.0.1:1"}


class FixedFeed:
    """A feed of one state."""

    number = 7

    def __init__(self, is_well: bool = True, size: int = 2) -> None:
        self._is_well, self._size = is_well, size

    def state(self) -> bytes:
        return b"x" * self._size

    def metrics(self) -> bytes:
        return b"edgefl_up 1\n"

    def health(self) -> tuple[bool, str]:
        return self._is_well, "training" if self._is_well else "not running"


def routes(feed: FixedFeed | None = None, token: str | None = None) -> Routes:
    return Routes(feed or FixedFeed(), AccessRules(token, True, 1), Markup.read())


@pytest.mark.parametrize(
    ("target", "status", "kind"),
    [
        ("/", 200, "text/html; charset=utf-8"),
        ("/?token=x", 200, "text/html; charset=utf-8"),
        ("/state.json", 200, "application/json"),
        ("/events", 200, "text/event-stream"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", 200, "application/json"),
        ("/none", 404, "text/plain; charset=utf-8"),
        ("/../run.db", 404, "text/plain; charset=utf-8"),
        ("http://127.0.0.1:1/state.json", 200, "application/json"),
        ("http://[", 400, "text/plain; charset=utf-8"),
    ],
)
def test_each_address_has_its_answer(target: str, status: int, kind: str) -> None:
    answer = routes().get(target, HOST)
    assert (answer.status, answer.headers["Content-Type"]) == (status, kind)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_a_server_that_is_not_there_is_503() -> None:
    answer = routes(FixedFeed(is_well=False)).get("/healthz", HOST)
    assert (answer.status, answer.body) == (503, b'{"ok": false, "phase": "not running"}')


@pytest.mark.parametrize("target", ["/", "/state.json", "/events", "/metrics", "/healthz", "/none"])
def test_without_the_token_every_address_is_401(target: str) -> None:
    answer = routes(token="t" * 20).get(target, HOST)
    assert (answer.status, answer.headers["WWW-Authenticate"], answer.after) == (401, "Bearer", None)


@pytest.mark.parametrize(
    ("site", "target", "status"),
    [
        ("cross-site", "/state.json", 403),
        ("same-site", "/events", 403),
        ("cross-site", "/", 200),
        ("none", "/metrics", 200),
    ],
)
def test_another_site_may_link_to_the_page_and_ask_nothing_else(site: str, target: str, status: int) -> None:
    assert routes().get(target, {**HOST, "Sec-Fetch-Site": site}).status == status


@pytest.mark.parametrize(
    ("headers", "query", "after"),
    [
        ({}, "", 7),
        ({}, "?after=3", 3),
        ({"Last-Event-ID": "5"}, "?after=3", 5),
        ({}, "?after=-1", 7),
        ({}, "?after=x", 7),
    ],
)
def test_events_go_on_where_the_visitor_is(headers: dict[str, str], query: str, after: int) -> None:
    assert routes().get(f"/events{query}", {**HOST, **headers}).after == after


def test_a_large_body_is_compressed_for_who_takes_that() -> None:
    large = routes(FixedFeed(size=COMPRESSED))
    answer = large.get("/state.json", {**HOST, "Accept-Encoding": "gzip, br"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.body) == b"x" * COMPRESSED
    assert large.get("/state.json", HOST).body == b"x" * COMPRESSED


def test_the_page_is_small_and_its_policy_names_its_script_and_style() -> None:
    markup = Markup.read()
    assert len(markup.page) < 100_000
    assert markup.policy.count("'sha256-") == 2
    assert "unsafe" not in markup.policy
    assert b"http://" not in markup.page.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in markup.page
