"""Real connections to a server in this process: who gets in, who has to go, and that a crowd has to wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from edgefl.server import admission
from edgefl.server.admission import Caps
from edgefl.server.listener import Entrance, ListenAddress, bound
from edgefl.server.peer import ConnectionTerms, Patience, Peer

SERVICE = ConnectionTerms("run", 8, None, lambda client: None, b"", lambda: bytes(32), sum, Patience())  # type: ignore[arg-type, return-value]
LOOKS = 20_000
HERE = ListenAddress("127.0.0.1", 0)


class Owner:
    """A server that only remembers: its peers by link, the peers that left, and what it said."""

    handshake_s = 10.0

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        self.gone: list[int] = []
        self.said: list[tuple[str, str]] = []
        self.entrance: Entrance

    def arrived(self, name: str) -> Peer:
        link = len(self.peers) + 1
        self.peers[link] = Peer(link, SERVICE, self, name)  # type: ignore[arg-type]
        return self.peers[link]

    def refused(self, peer: Peer, reason: str) -> None: ...

    def left(self, peer: Peer) -> None:
        self.gone.append(peer.link)
        self.entrance.leave(peer.link)

    def say(self, line: str, kind: str) -> None:
        self.said.append((kind, line))

    @property
    def there(self) -> int:
        return len(self.peers) - len(self.gone)


@contextmanager
def entrance(caps: Caps, room: int = 100) -> Iterator[Owner]:
    owner = Owner()
    owner.entrance = Entrance(owner, HERE, caps, room)
    try:
        yield owner
    finally:
        owner.entrance.close()


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(LOOKS):
        if happened():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The throughput of a hundredth of the time."""
    monkeypatch.setattr(admission, "LIFE_S", admission.LIFE_S / 100)


@pytest.mark.usefixtures("hurried")
def test_a_stranger_goes_for_the_next_one_and_is_not_heard_again() -> None:
    async def story() -> None:
        with entrance(Caps(8, 2)) as owner:
            links = [socket.create_connection(owner.entrance.name) for _ in range(2)]
            await until(lambda: owner.there == 2)
            links.append(socket.create_connection(owner.entrance.name))
            await until(lambda: owner.gone == [1])
            assert links[0].recv(1) == b""
            assert len(owner.peers) == 3
            assert "crowded out" in [kind for kind, _ in owner.said]
            for link in links:
                link.close()

    play(story)


def test_small_messages_leave_at_once() -> None:
    """Nagle's algorithm would hold a verdict until the one before it is acknowledged: 25 ms a round."""

    async def story() -> None:
        with entrance(Caps()) as owner, socket.create_connection(owner.entrance.name):
            await until(lambda: owner.there == 1)
            (link,) = owner.entrance._strangers.values()
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    play(story)


@pytest.mark.usefixtures("hurried")
def test_a_device_stays_and_strangers_do_not_count_it() -> None:
    async def story() -> None:
        with entrance(Caps(8, 1)) as owner, socket.create_connection(owner.entrance.name):
            await until(lambda: owner.there == 1)
            owner.entrance.know(1)
            with socket.create_connection(owner.entrance.name):
                await until(lambda: owner.there == 2)
                with socket.create_connection(owner.entrance.name):
                    await until(lambda: owner.gone == [2])

    play(story)


def test_a_crowd_waits_outside_and_then_comes_in() -> None:
    async def story() -> None:
        with entrance(Caps(12, 12)) as owner:  # the queue of the kernel holds all connections, so none comes late
            links = [socket.create_connection(owner.entrance.name) for _ in range(15)]
            await until(lambda: len(owner.peers) >= 12)
            assert ("crowd", "more connections than devices need: new connections have to wait") in owner.said
            await until(lambda: len(owner.peers) == 15)
            await until(lambda: owner.there == 12)
            for link in links:
                link.close()

    play(story)


def test_without_a_descriptor_it_says_so_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    from edgefl.server import listener as module

    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    _, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def story() -> None:
        with entrance(Caps(8, 8)) as owner, socket.socket() as link:
            taken = socket.socket()  # the highest number that is in use
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken.fileno() + 1, hard))
            spare = []
            try:
                while True:
                    spare.append(socket.socket())
            except OSError:
                pass
            link.connect(owner.entrance.name)
            await until(
                lambda: ("accept", "cannot accept connections: Too many open files; trying again") in owner.said
            )
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            await until(lambda: owner.there == 1)
            for each in (taken, *spare):
                each.close()

    try:
        play(story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_closing_ends_the_connections_of_strangers() -> None:
    async def story() -> None:
        with entrance(Caps()) as owner:
            link = socket.create_connection(owner.entrance.name)
            await until(lambda: owner.there == 1)
        await until(lambda: owner.gone == [1])
        assert link.recv(1) == b""
        link.close()

    play(story)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match=r"host 203\.0\.113\.7 is another machine's; expected an address of this machine"):
        bound(ListenAddress("203.0.113.7", 0))


def test_a_name_is_listened_at_by_all_its_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    sockets = bound(ListenAddress("localhost", port)).sockets
    expected = {each[4][:2] for each in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
    assert {each.getsockname()[:2] for each in sockets} == expected
    for each in sockets:
        each.close()


def test_a_port_that_is_taken_is_an_error() -> None:
    async def story() -> None:
        with entrance(Caps()) as owner:
            host, port = owner.entrance.name
            with pytest.raises(OSError, match="Address already in use"):
                Entrance(owner, ListenAddress(host, port), Caps(), 100)

    play(story)
