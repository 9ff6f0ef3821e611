"""The scripted server behind a real socket on loopback, in a thread: for the tests of device/device_socket.py."""

from __future__ import annotations

import socket
import ssl
import threading
from types import TracebackType

from edgefl.errors import DamagedFrameError, EdgeflError
from tests.deployment.device.device_server import ScriptedServer


class Listener:
    """Serves one connection after the other until the with block ends.

    cuts  for the first connections: how many bytes they may carry to the device before the server drops them
    """

    def __init__(
        self, server: ScriptedServer, context: ssl.SSLContext | None = None, cuts: tuple[int, ...] = ()
    ) -> None:
        self._server, self._context, self._cuts = server, context, list(cuts)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.refusals: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str:
        """The address as on the command line."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._socket.close()
        self._thread.join(timeout=10)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return  # closed
            try:
                with self._context.wrap_socket(link, server_side=True) if self._context else link as wrapped:
                    self._connection(wrapped)
            except (OSError, EdgeflError) as error:
                self.refusals.append(str(error))
                link.close()

    def _connection(self, link: socket.socket) -> None:
        connection, left = self._server.connect(), self._cuts.pop(0) if self._cuts else None
        while data := link.recv(1 << 16):
            try:
                for message in connection.receive(data):
                    for answer in self._server.answers(message):
                        out = connection.send(answer)
                        link.sendall(out[:left])
                        left = None if left is None else left - len(out)
                        if left is not None and left <= 0:
                            return
            except DamagedFrameError:
                raise  # closes without a word
            except EdgeflError as error:
                link.sendall(connection.refuse(str(error)))
                raise
