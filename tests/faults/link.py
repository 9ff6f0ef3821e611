"""A bad link between two network namespaces of this machine: it delays, loses and cuts whole IP packets.

Each end is a TUN device in a namespace of its own, so that two real TCP stacks talk over it and repeat what is lost.
This process carries the packets. It does what `tc netem` would do to a veth pair, on kernels without netem as well.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
NAMESPACES = "/var/run/netns"
PACKET_BYTES = 1 << 16


@dataclass
class Link:
    """Two ends by namespace and address, and the faults of the packets between them.

    delay_s  one way, equal for every packet: no packet overtakes another
    loss     share of the packets of either direction that vanish
    cut      whether nothing passes
    passed, lost  packets so far
    """

    names: tuple[str, str]
    addresses: tuple[str, str]
    delay_s: float
    loss: float
    cut: threading.Event = field(default_factory=threading.Event)
    passed: int = 0
    lost: int = 0


def problem() -> str | None:
    """Return why there can be no link here, or None if there can."""
    if not os.path.exists("/dev/net/tun") or os.geteuid() != 0:
        return "a link between namespaces needs root and /dev/net/tun; expected both"
    return None


def enter(name: str) -> None:
    """Move this thread, and what it starts from now on, into a namespace. Raises OSError."""
    handle = os.open(f"{NAMESPACES}/{name}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {name} cannot be entered")
    finally:
        os.close(handle)


@contextmanager
def link(delay_s: float, loss: float, seed: int = 1) -> Iterator[Link]:
    """Yield such a link for the length of the with block.

    Raises OSError or CalledProcessError if the machine refuses.
    """
    names = (f"edgefl-{os.getpid()}-a", f"edgefl-{os.getpid()}-b")
    made = Link(names, ("10.211.7.1", "10.211.7.2"), delay_s, loss)
    with ExitStack() as stack:
        ends = [
            stack.enter_context(_end(name, at, to)) for name, at, to in zip(names, made.addresses, made.addresses[::-1])
        ]
        stop, stopped = os.pipe()
        carrier = threading.Thread(target=_carry, args=(made, ends, stop, random.Random(seed)))
        carrier.start()
        try:
            yield made
        finally:
            os.write(stopped, b"x")
            carrier.join()
            os.close(stop)
            os.close(stopped)


@contextmanager
def _end(name: str, address: str, other: str) -> Iterator[int]:
    """Make a namespace with one TUN device, and yield the descriptor that carries its packets."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    device = f"efl{name[-1]}{os.getpid()}"[:15]
    _ip("netns", "add", name)
    try:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        os.set_blocking(tun, False)
        _ip("link", "set", device, "netns", name)
        _ip("-n", name, "address", "add", address, "peer", other, "dev", device)
        _ip("-n", name, "link", "set", device, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield tun
    finally:
        os.close(tun)
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _carry(made: Link, ends: list[int], stop: int, random_stream: random.Random) -> None:
    """Take packets at either end, and hand them over at the other end when their time has come."""
    due: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        ready, _, _ = select.select([*ends, stop], [], [], wait)
        if stop in ready:
            return
        for which, end in enumerate(ends):
            for packet in _packets(end) if end in ready else ():
                if made.cut.is_set() or random_stream.random() < made.loss:
                    made.lost += 1
                    continue
                count += 1
                heapq.heappush(due, (time.monotonic() + made.delay_s, count, ends[1 - which], packet))
        while due and due[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(due)
            if not made.cut.is_set():
                made.passed += 1
                _hand_over(target, packet)


def _packets(end: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(end, PACKET_BYTES)
        except BlockingIOError:
            return


def _hand_over(end: int, packet: bytes) -> None:
    with suppress(OSError):  # a full queue loses a packet, as a real one does
        os.write(end, packet)
