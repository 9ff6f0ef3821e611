"""The rules of who may see the page: tables of headers, and what they lack."""

from __future__ import annotations

import pytest

from edgefl.server.page.access import AccessRules

TOKEN = "a-token-of-32-characters-or-more!"
OPEN = AccessRules(None, loopback=True, port=8080)
ASKING = AccessRules(TOKEN, loopback=True, port=8080)
REMOTE = AccessRules(TOKEN, loopback=False, port=443, is_tls=True)


@pytest.mark.parametrize(
    ("host", "decision"),
    [
        ("127.0.0.1:8080", "allowed"),
        ("127.0.0.1", "allowed"),
        ("127.8.9.10:1", "allowed"),
        ("localhost:8080", "allowed"),
        ("LOCALHOST", "allowed"),
        ("[::1]:8080", "allowed"),
        ("[::1]", "allowed"),
        ("::1", "allowed"),
        ("", "host"),
        ("evil.example", "host"),
        ("evil.example:8080", "host"),
        ("127.0.0.1.evil.example", "host"),
        ("localhost.evil.example:8080", "host"),
        ("10.0.0.7:8080", "host"),
        ("[::2]:8080", "host"),
    ],
)
def test_a_page_on_loopback_is_asked_by_a_name_of_loopback(host: str, decision: str) -> None:
    assert OPEN.decide({"Host": host}, {}) == decision


@pytest.mark.parametrize(
    ("headers", "query", "decision"),
    [
        ({}, {}, "token"),
        ({"Authorization": f"Bearer {TOKEN}"}, {}, "allowed"),
        ({"Authorization": f"bearer {TOKEN}"}, {}, "allowed"),
        ({"Authorization": f"Bearer {TOKEN}x"}, {}, "token"),
        ({"Authorization": f"Basic {TOKEN}"}, {}, "token"),
        ({"Authorization": "Bearer "}, {}, "token"),
        ({}, {"token": TOKEN}, "allowed, with a cookie"),
        ({}, {"token": TOKEN[:-1]}, "token"),
        ({}, {"token": "\udcff"}, "token"),
        ({"Cookie": f"edgefl_page_443={TOKEN}"}, {}, "token"),
        ({"Cookie": REMOTE.set_cookie.split(";")[0]}, {}, "allowed"),
        ({"Cookie": "a=b; " + REMOTE.set_cookie.split(";")[0]}, {}, "allowed"),
        ({"Cookie": ASKING.set_cookie.split(";")[0]}, {}, "token"),
        ({"Cookie": "]["}, {}, "token"),
    ],
)
def test_a_token_is_asked_for(headers: dict[str, str], query: dict[str, str], decision: str) -> None:
    assert REMOTE.decide({"Host": "page.example", **headers}, query) == decision


def test_the_cookie_is_the_pages_alone() -> None:
    assert REMOTE.set_cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert ASKING.set_cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert TOKEN not in REMOTE.set_cookie


def test_a_token_does_not_stand_in_for_the_host() -> None:
    assert ASKING.decide({"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}, {}) == "host"
