"""The page's server at a socket: what hostile visitors do to it, and TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from edgefl.server.page import http_server
from tests.server import made_run
from tests.server.page.shown import ShownRun


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ShownRun]:
    run = ShownRun(tmp_path)
    made_run.made_run(tmp_path)
    run.show()
    yield run
    run.close()


def said(page: ShownRun, request: bytes) -> bytes:
    """All that the server answers to these bytes."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as link:
        link.sendall(request)
        found = b""
        with suppress(ConnectionResetError):
            while data := link.recv(65536):
                found += data
        return found


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", b"501"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 70000 + b" HTTP/1.0\r\n\r\n", b"414"),
        (b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /\xff\x00%00 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", b"404"),
    ],
)
def test_a_request_is_answered_and_the_connection_closed(page: ShownRun, request_line: bytes, status: bytes) -> None:
    answer = said(page, request_line)
    assert status in answer.split(b"\r\n")[0] or status in answer[:200]


def test_who_does_not_finish_a_request_holds_a_place_and_no_more(
    page: ShownRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_S", 0.5)
    idle = [socket.create_connection(("127.0.0.1", page.port), timeout=20) for _ in range(http_server.CONNECTIONS)]
    for link in idle:
        link.sendall(b"GET / HTTP/1.0\r\nHost:")
    assert said(page, b"").startswith(b"HTTP/1.0 503")
    for link in idle:
        assert link.recv(1) == b""  # turned out after PATIENCE_S
        link.close()
    with urlopen(f"{page.url}healthz") as answer:
        assert answer.status == 200


def test_more_listeners_than_there_is_room_for_are_turned_away(page: ShownRun) -> None:
    links = []
    for _ in range(http_server.LISTENERS):
        links.append(socket.create_connection(("127.0.0.1", page.port), timeout=20))
        links[-1].sendall(b"GET /events HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        assert links[-1].recv(4096).startswith(b"HTTP/1.0 200")
    assert said(page, b"GET /events HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.0 503")
    assert said(page, b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.0 200")
    for link in links:
        link.close()


def test_a_visitor_without_tls_at_a_page_with_tls_ends_its_own_connection(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    from edgefl.protocol.trust.certificates import make_certificates
    from edgefl.protocol.trust.tls import server_context

    keys = tmp_path / "keys"
    make_certificates(keys, ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
    made_run.made_run(tmp_path / "run")
    run = ShownRun(tmp_path / "run")
    run.show(context=server_context(keys / "server.pem", keys / "server-tls.key"))
    try:
        assert not said(run, b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP")
        trusting = ssl.create_default_context(cafile=str(keys / "ca.pem"))
        with urlopen(f"https://127.0.0.1:{run.port}/healthz", context=trusting) as answer:
            assert answer.status == 200
    finally:
        run.close()
