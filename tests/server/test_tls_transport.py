"""TLS between a transport and a Peer: bytes of any size both ways, ends, and what an idle connection costs."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.protocol.trust.tls import device_context, server_context
from edgefl.server.tls_transport import TlsTransport

IDLE_KB = 40
ASK = b"ask"


class Inner(asyncio.Protocol):
    """Sends back what comes. `gone` is done when the connection is lost."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set_result(None)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("secured")
    make_certificates(root, ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
    return root


Client = Callable[[int, ssl.SSLContext], Any]


def play(root: Path, client: Client, patience_s: float = 10.0) -> tuple[Any, Inner, list[str]]:
    """Return what the client's function gives, run in a thread beside the server, its connection, and what failed."""
    failed: list[str] = []
    inners: list[Inner] = []

    context = server_context(root / "server.pem", root / "server-tls.key")

    def accept() -> TlsTransport:
        inners.append(Inner())
        return TlsTransport(context, inners[-1], patience_s, failed.append)

    async def both() -> Any:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = await loop.run_in_executor(None, client, port, device_context(root / "ca.pem"))
        await asyncio.wait_for(inners[0].gone, 10)
        server.close()
        return found

    return asyncio.run(both()), inners[0], failed


def connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="127.0.0.1")


def test_bytes_come_back_whatever_their_number(root: Path) -> None:
    """Also more than a record, and more than fits into the socket at once."""
    sizes = [1, 4095, 4096, 4097, 16384, 16385, 300_000]

    def client(port: int, context: ssl.SSLContext) -> list[bytes]:
        with connected(port, context) as link:
            found = []
            for size in sizes:
                link.sendall(bytes([size % 251]) * size)
                data = b""
                while len(data) < size:
                    data += link.recv(1 << 16)
                found.append(data)
            return found

    found, _, failed = play(root, client)
    assert found == [bytes([size % 251]) * size for size in sizes]
    assert failed == []


def test_a_client_that_ends_tls_is_heard(root: Path) -> None:
    def client(port: int, context: ssl.SSLContext) -> bytes:
        link = connected(port, context)
        link.sendall(ASK)
        answer = link.recv(10)
        link.unwrap().close()
        return answer

    found, _, failed = play(root, client)
    assert (found, failed) == (ASK, [])


def test_the_server_ends_tls_before_the_connection(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a device could not tell the end from a connection that was cut."""

    def answer_and_close(self: Inner, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)
        self.transport.close()
        assert self.transport.is_closing()

    monkeypatch.setattr(Inner, "data_received", answer_and_close)

    def client(port: int, context: ssl.SSLContext) -> list[bytes]:
        with connected(port, context) as link:
            link.sendall(ASK)
            return [link.recv(10), link.recv(10)]  # SSLEOFError if it were cut

    found, _, _ = play(root, client)
    assert found == [ASK, b""]


def test_what_is_no_tls_is_said_and_dropped(root: Path) -> None:
    def client(port: int, context: ssl.SSLContext) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 10) as link:
            link.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return link.recv(100)

    found, inner, failed = play(root, client)
    assert (found, failed, inner.transport) == (b"", ["HTTP_REQUEST"], None)


def test_a_handshake_that_stalls_is_dropped(root: Path) -> None:
    def client(port: int, context: ssl.SSLContext) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 10) as link:
            return link.recv(100)

    found, inner, failed = play(root, client, patience_s=0.05)
    assert (found, failed, inner.transport) == (b"", ["the handshake is not complete after 0.05 s"], None)


def test_garbage_after_the_handshake_ends_the_connection(root: Path) -> None:
    def client(port: int, context: ssl.SSLContext) -> None:
        link = connected(port, context)
        with socket.socket(fileno=link.detach()) as plain:
            plain.settimeout(10)
            plain.sendall(b"\x17\x03\x03\x00\x10" + bytes(16))
            try:
                while plain.recv(100):
                    pass
            except ConnectionResetError:
                pass

    _, inner, failed = play(root, client)
    assert inner.transport is not None
    assert failed == []


CLIENTS = """
import socket, ssl, sys
port, count, authority = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile=authority)
links = []
for _ in range(count):
    link = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(b"x" * 20_000)
    came = 0
    while came < 20_000:
        came += len(link.recv(1 << 16))
    links.append(link)
print("all there", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_an_idle_connection_costs_little(root: Path) -> None:
    """There are 200 connections that have sent 20 kB each and got them back. asyncio's own TLS took 280 kB.

    The test runs in a process of its own, which has no memory left over from other tests.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        assert 0 < fresh.submit(idle_kb, root).result() < IDLE_KB


def idle_kb(root: Path) -> float:
    """Resident memory of this process for each idle connection, in kB."""
    return asyncio.run(_idle_kb(server_context(root / "server.pem", root / "server-tls.key"), root / "ca.pem", 200))


async def _idle_kb(context: ssl.SSLContext, authority: Path, count: int) -> float:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: TlsTransport(context, Inner(), 10.0, print), "127.0.0.1", 0)
    port = str(server.sockets[0].getsockname()[1])
    arguments = [sys.executable, "-c", CLIENTS, port, str(count), str(authority)]
    clients = await asyncio.create_subprocess_exec(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    before = resident_kb()
    assert clients.stdout is not None
    assert await clients.stdout.readline() == b"all there\n"
    found = (resident_kb() - before) / count
    clients.kill()
    await clients.wait()
    server.close()
    return found


def resident_kb() -> int:
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1])


def test_a_connection_that_is_gone_leaves_nothing_behind(root: Path) -> None:
    """No circle of references that waits for the collector: ten thousand sessions would be hundreds of megabytes."""
    found: list[weakref.ref[ssl.SSLObject]] = []

    def client(port: int, context: ssl.SSLContext) -> None:
        with connected(port, context) as link:
            link.sendall(ASK)
            link.recv(10)
            (secured,) = [each for each in gc.get_objects() if type(each) is TlsTransport and each._session is not None]
            found.append(weakref.ref(secured._session))

    gc.disable()
    try:
        play(root, client)
        assert found[0]() is None
    finally:
        gc.enable()
