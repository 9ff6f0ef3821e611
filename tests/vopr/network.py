"""The network of a simulation: TCP connections between devices and the server.

Bytes of one direction stay in order and are split anywhere. They are late by another time in every connection, so that
two connections of a device can overtake each other. A connection can be reset, and a device can be cut off: then its
bytes wait, and after SILENCE_S seconds both sides hear that the connection is lost, the one long before the other.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.vopr.fiber import Fiber
from tests.vopr.ledger import check_synced
from tests.vopr.process import Process
from tests.vopr.schedule import Schedule
from tests.vopr.tls import Contexts

LATENCY_S = 0.3  # most seconds that bytes take
SILENCE_S = 60.0  # seconds without an answer after which the kernel gives up a connection
LONGER_S = 30.0  # seconds more until the other side has noticed it, too


class Direction:
    """One direction of a connection: pieces of bytes in order, then b"" for the end or an error.

    owner  the process that receives
    """

    def __init__(self, network: Network, client: int, owner: Process, deliver: Callable[[bytes | OSError], None]):
        self._network, self._client, self.owner, self._deliver = network, client, owner, deliver
        self._latency = network.stream.random() * LATENCY_S
        self._pieces: deque[bytes | OSError] = deque()
        self._last, self._is_over, self._is_behind = 0.0, False, False

    def send(self, data: bytes) -> None:
        """Send bytes, in one piece or in two."""
        cut = self._network.stream.randrange(4 * len(data)) if data else 0
        for piece in (data[:cut], data[cut:]) if cut < len(data) else (data,):
            if piece:
                self._add(piece)

    def end(self, error: OSError | None = None, after_s: float = 0.0) -> None:
        """End the direction behind what was sent, or with an error at which what was sent is lost."""
        if error is None:
            self._add(b"", after_s)
        elif not self._is_over:
            self._pieces, self._is_behind = deque([error]), False
            self._network.schedule.after(after_s, lambda: self._arrive(is_error=True), self.owner)

    def end_behind(self, error: OSError, after_s: float) -> None:
        """End the direction with an error behind what was sent, as the system delivers the last words of a process."""
        if not self._is_over:
            self._is_behind = True  # a process that is halted again can take its events in another order
            self._add(error, after_s)

    def _add(self, piece: bytes | OSError, after_s: float = 0.0) -> None:
        schedule, stream = self._network.schedule, self._network.stream
        self._pieces.append(piece)
        self._last = max(self._last, schedule.now + after_s + self._latency * (0.5 + stream.random()))
        schedule.at(self._last, self._arrive, self.owner)

    def _arrive(self, is_error: bool = False) -> None:
        """Deliver the oldest piece, once the device is not cut off."""
        schedule, clear = self._network.schedule, self._network.clear_at(self._client)
        if clear > schedule.now and not is_error:
            schedule.at(clear, self._arrive, self.owner)
            return
        if (
            not self._pieces
            or self._is_over
            or (isinstance(self._pieces[0], OSError) and not (is_error or self._is_behind))
        ):
            return
        piece = self._pieces.popleft()
        self._is_over = not piece or isinstance(piece, OSError)
        self._deliver(self._network.damaged(piece))


class ServerWire:
    """The server's end of a connection, as the accepted socket of its listener."""

    def __init__(self, network: Network, client: int, device: Process, server: Process) -> None:
        self.client = client
        self.device_end = DeviceLink(network, self, device)
        self.to_device = Direction(network, client, device, self.device_end.arrived)
        self.to_server = Direction(network, client, server, self._arrived)
        self._early: list[bytes | OSError] = []
        self._transport: ServerTransport | None = None

    def attach(self, transport: ServerTransport) -> None:
        self._transport = transport
        for piece in self._early:
            transport.arrived(piece)

    def _arrived(self, piece: bytes | OSError) -> None:
        if self._transport is None:
            self._early.append(piece)
        else:
            self._transport.arrived(piece)

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *args: Any) -> None: ...

    def shutdown(self, how: int) -> None:
        """End both directions, as the listener does with a stranger that has to go."""
        self.to_device.end()
        if self._transport is not None:
            self._transport.arrived(b"")

    def break_off(self, number: int, soon_s: float, late_s: float) -> None:
        """Let the server hear of a lost connection after `soon_s` seconds, and the device after `late_s` seconds.

        number  of the system's error
        """
        self.to_server.end(OSError(number, "the connection was lost"), soon_s)
        self.to_device.end(OSError(number, "the connection was lost"), late_s)


class ServerTransport(asyncio.Transport):
    """The transport of an accepted connection."""

    def __init__(self, wire: ServerWire, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__()
        self._wire, self._loop, self._protocol, self._is_closing = wire, loop, protocol, False

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._wire.to_device.send(bytes(data))

    def arrived(self, piece: bytes | OSError) -> None:
        if self._is_closing:
            return
        if isinstance(piece, OSError):
            self._lose(piece)
        elif piece:
            self._loop.call_soon(self._receive, piece)
        else:
            self._loop.call_soon(self._end)

    def _receive(self, piece: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(piece)

    def _end(self) -> None:
        if not self._is_closing and not self._protocol.eof_received():
            self.close()

    def close(self) -> None:
        if not self._is_closing:
            self._wire.to_device.end()
            self._lose(None)

    def abort(self) -> None:
        if not self._is_closing:
            self._wire.to_device.end(ConnectionResetError("reset by the server"), LATENCY_S)
            self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        self._is_closing = True
        self._loop.call_soon(self._protocol.connection_lost, error)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class DeviceLink:
    """The device's end of a connection: a blocking socket, used in the device's fiber."""

    def __init__(self, network: Network, wire: ServerWire, device: Process) -> None:
        self._network, self._wire, self._device = network, wire, device
        self._received, self._end, self._is_lost = bytearray(), None, False
        self._timeout_s: float | None = None
        self.fiber: Fiber | None = None

    def arrived(self, piece: bytes | OSError) -> None:
        if isinstance(piece, OSError) or not piece:
            self._end = piece
        else:
            self._received += piece
        if self.fiber is not None:
            self.fiber.wake()

    def settimeout(self, seconds: float | None) -> None:
        self._timeout_s = seconds

    def sendall(self, data: bytes) -> None:
        check_synced(self._device)
        self._raise()
        if self._is_lost:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._wire.to_server.send(bytes(data))

    def recv(self, size: int) -> bytes:
        assert self.fiber is not None
        until = None if self._timeout_s is None else self._network.schedule.now + self._timeout_s
        while not self._received and self._end is None:
            left = None if until is None else until - self._network.schedule.now
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            self.fiber.wait(left)
        data = bytes(self._received[:size])
        del self._received[:size]
        if not data:
            self._raise()
        return data

    def _raise(self) -> None:
        """Raise the error that has ended the connection, once. Then the socket is at its end, as the system's is."""
        if isinstance(self._end, OSError):
            error, self._end, self._is_lost = self._end, b"", True
            raise error

    def __enter__(self) -> DeviceLink:
        return self

    def __exit__(self, *error: object) -> None:
        if self._device.is_alive:
            self._network.forget(self._wire)
            self._wire.to_server.end()


class Listener:
    """The listening socket of one life of the server."""

    def __init__(self, server: Process) -> None:
        self.server, self._waiting = server, deque[ServerWire]()
        self._call: Callable[[], object] | None = None

    def is_watched(self, call: Callable[[], object] | None) -> None:
        self._call = call
        if call is not None and self._waiting:
            call()

    def arrive(self, wire: ServerWire) -> None:
        self._waiting.append(wire)
        if self._call is not None:
            self._call()

    def accept(self) -> tuple[ServerWire, tuple[str, int]]:
        if not self._waiting:
            raise BlockingIOError
        wire = self._waiting.popleft()
        return wire, (f"10.0.{wire.client // 256}.{wire.client % 256}", 1)

    def listen(self, queue: int) -> None: ...

    def close(self) -> None: ...

    def getsockname(self) -> tuple[str, int]:
        return "10.1.0.1", 1


class Network:
    """All connections.

    listener  of the server that runs, or None
    flips     share of pieces in which one bit is changed on its way
    contexts  for TLS, or None
    """

    def __init__(self, schedule: Schedule, contexts: Contexts | None = None) -> None:
        self.schedule, self.stream = schedule, schedule.stream("network")
        self.listener: Listener | None = None
        self.flips = 0.0
        self.contexts = contexts
        self._wires: list[ServerWire] = []
        self._cut_until: dict[int, float] = {}

    @property
    def device_context(self) -> ssl.SSLContext | None:
        """The context of the devices for TLS, or None."""
        return None if self.contexts is None else self.contexts.device

    def clear_at(self, client: int) -> float:
        """Return the time from which the client is no longer cut off."""
        return self._cut_until.get(client, 0.0)

    def damaged(self, piece: bytes | OSError) -> bytes | OSError:
        """Return the piece, in which sometimes one bit is another one."""
        if isinstance(piece, OSError) or not piece or self.stream.random() >= self.flips:
            return piece
        at, changed = self.stream.randrange(8 * len(piece)), bytearray(piece)
        changed[at // 8] ^= 1 << at % 8
        return bytes(changed)

    def connect(self, client: int, device: Process, fiber: Fiber, timeout_s: float | None) -> DeviceLink:
        """Connect a device to the server. Call it in the device's fiber. Raises OSError if that fails."""
        fiber.sleep(self.stream.random() * LATENCY_S)
        if self.clear_at(client) > self.schedule.now:
            fiber.sleep(60.0 if timeout_s is None else timeout_s)
            raise TimeoutError("timed out")
        if self.listener is None:
            raise ConnectionRefusedError(111, "Connection refused")
        wire = ServerWire(self, client, device, self.listener.server)
        wire.device_end.fiber = fiber
        self._wires.append(wire)
        listener = self.listener
        self.schedule.after(0.0, lambda: listener.arrive(wire), listener.server)
        return wire.device_end

    def forget(self, wire: ServerWire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)

    def cut(self, client: int, seconds: float) -> None:
        """Cut a device off for so many seconds."""
        self._cut_until[client] = self.schedule.now + seconds
        if seconds > SILENCE_S:
            for wire in self._of(client):
                first, second = self.stream.sample((SILENCE_S, SILENCE_S + self.stream.random() * LONGER_S), 2)
                wire.break_off(errno.ETIMEDOUT, first, second)
                self.forget(wire)

    def reset(self, client: int) -> None:
        """Break all connections of a device. One side can hear of it long before the other."""
        for wire in self._of(client):
            late = self.stream.choice((0.0, LATENCY_S, SILENCE_S))
            wire.break_off(errno.ECONNRESET, *self.stream.sample((0.0, late), 2))
            self.forget(wire)

    def died(self, process: Process, loses_power: bool) -> None:
        """End the connections of a process that was killed. What it has sent may arrive.

        After a loss of power the other side hears of it late.
        """
        longest = SILENCE_S if loses_power else LATENCY_S
        for wire in [each for each in self._wires if process in (each.to_server.owner, each.to_device.owner)]:
            other = wire.to_server if wire.to_device.owner is process else wire.to_device
            arrives = self.stream.random() < 0.5
            (other.end_behind if arrives else other.end)(
                ConnectionResetError("the peer is gone"), self.stream.random() * longest
            )
            self.forget(wire)

    def _of(self, client: int) -> list[ServerWire]:
        return [wire for wire in self._wires if wire.client == client]
