"""The page's HTTP server: sockets, threads and TLS around the answers of routes.py, by the standard library alone.

A connection is one request. At most CONNECTIONS are open, and at most LISTENERS of them wait for events. Further
visitors are turned away. A visitor that does not finish its request, or does not read its answer, loses its connection
after PATIENCE_S seconds.
"""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from edgefl.server.page.feed import RunFeed
from edgefl.server.page.routes import PageAnswer, Routes
from edgefl.system.log_lines import Detail

CONNECTIONS, LISTENERS = 64, 32
PATIENCE_S = 10.0
QUIET_S = 10.0  # seconds without an event after which a listener gets an empty line
FULL = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n"


class PageServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server of one page at a socket that listens already."""

    daemon_threads, block_on_close = True, False

    def __init__(
        self,
        listener: socket.socket,
        feed: RunFeed,
        routes: Routes,
        context: ssl.SSLContext | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__(listener.getsockname(), PageHandler, bind_and_activate=False)
        self.socket.close()
        listener.setblocking(True)
        listener.listen(CONNECTIONS)
        self.socket = listener
        self.feed, self.routes, self.say = feed, routes, say
        self.stop = threading.Event()
        self._context = context
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._begun: dict[socket.socket, float] = {}  # times at which connections with incomplete requests began

    def get_request(self) -> tuple[socket.socket, Any]:
        link, address = super().get_request()
        link.settimeout(PATIENCE_S)
        return link, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            self._begun[request] = time.monotonic()
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            if self._context is None:
                request.send(FULL)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        link = request
        try:
            if self._context is not None:
                link = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
                self._begun[link] = self._begun.pop(request)  # `link` owns the socket of the request from now on
                link.do_handshake()
            PageHandler(link, client_address, self)
        except (OSError, ValueError) as error:  # the visitor is gone, or does not speak TLS or HTTP
            self.say(Detail(f"page: {client_address[0]}: {error}", "page"))
        finally:
            self._begun.pop(request, None)
            self._begun.pop(link, None)
            self.shutdown_request(link)
            self._room.release()

    def complete(self, link: socket.socket) -> None:
        """Note that the request of this connection is complete."""
        self._begun.pop(link, None)

    def service_actions(self) -> None:
        """End connections whose requests take too long. The base class calls this every half a second."""
        since = time.monotonic() - PATIENCE_S
        for link, at in list(self._begun.items()):
            if at < since:
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore an error, so that no visitor can end the server."""


class PageHandler(BaseHTTPRequestHandler):
    """A handler of one request."""

    server: PageServer
    timeout = PATIENCE_S
    server_version, sys_version = "edgefl", ""

    def do_GET(self) -> None:
        """Answer once, or as long as the visitor listens."""
        self.server.complete(self.connection)
        answer = self.server.routes.get(self.path, self.headers)
        if answer.after is None:
            self._begin(answer, len(answer.body))
            self.wfile.write(answer.body)
        elif self.server.feed.join(LISTENERS):
            try:
                self._begin(answer)
                self._listen(answer.after)
            finally:
                self.server.feed.leave()
        else:
            self.wfile.write(FULL)

    def _begin(self, answer: PageAnswer, length: int | None = None) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def _listen(self, after: int) -> None:
        """Send events until the visitor is gone."""
        self.wfile.write(b"retry: 2000\n\n")
        while not self.server.stop.is_set():
            after, frames = self.server.feed.frames(after, QUIET_S)
            self.wfile.write(frames or b": nothing new\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say a line for somebody who looks for a fault. It lacks the query, which may have a token."""
        path = getattr(self, "path", "").partition("?")[0]
        self.server.say(Detail(f"page: {self.client_address[0]} {self.command} {path[:200]} {args[1:2]}", "page"))


def serve_page(server: PageServer) -> None:
    """Serve until `server.stop` is set or the process is interrupted."""
    looking = threading.Thread(target=server.feed.run, args=(server.stop,), name="feed", daemon=True)
    looking.start()
    try:
        server.serve_forever(poll_interval=0.5)
    finally:
        server.stop.set()
        server.server_close()
