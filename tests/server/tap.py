"""A relay on loopback between devices and a server that keeps what the devices say."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Tap:
    """Relays one connection to 127.0.0.1:port in a with block. `port` is its own, `heard` what the device has sent."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self._thread = threading.Thread(target=self._relay, daemon=True)

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _relay(self) -> None:
        device, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._to))
        back = threading.Thread(target=_copy, args=(server, device), daemon=True)
        back.start()
        try:
            while data := device.recv(1 << 16):
                self.heard += data
                server.sendall(data)
        except OSError:
            pass  # either side has gone
        server.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass  # either side has gone
    sink.close()
