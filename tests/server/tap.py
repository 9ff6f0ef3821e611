"""A relay on loopback between a device and a server that keeps what the device says."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Tap:
    """Relays connections to 127.0.0.1:port, one after the other, in a with block. `port` is its own, `heard` what the
    device has sent in the last of them.
    """

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
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()

    def _relay(self) -> None:
        while True:
            try:
                device, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._pass_on(device)

    def _pass_on(self, device: socket.socket) -> None:
        self.heard = b""
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
