"""The page of a run in this process, as `edgefl page` shows it in a process of its own."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

from edgefl.server.listener import ListenAddress, bound
from edgefl.server.page.access import AccessRules
from edgefl.server.page.feed import RunFeed
from edgefl.server.page.http_server import PageServer, serve_page
from edgefl.server.page.markup import Markup
from edgefl.server.page.routes import Routes
from edgefl.server.run_view import RunView


class ShownRun:
    """A run with a page: `path` is the run's directory, `url` the page's address after `show`, and `port` its port."""

    def __init__(self, path: Path) -> None:
        self.path, self.port = path, 0
        self._server: PageServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def show(self, token: str | None = None, context: ssl.SSLContext | None = None) -> str:
        """Show the page, at its former port if it had one, and return its address."""
        (listener,) = bound(ListenAddress("127.0.0.1", self.port)).sockets
        self.port = listener.getsockname()[1]
        view = RunView(self.path)
        view.look(0.0)
        feed = RunFeed(view)
        rules = AccessRules(token, True, self.port)
        self._server = PageServer(listener, feed, Routes(feed, rules, Markup.read()), context)
        self._thread = threading.Thread(target=serve_page, args=(self._server,))
        self._thread.start()
        return self.url

    def close(self) -> None:
        """The page is gone."""
        if self._server is not None:
            self._server.stop.set()
            self._server.shutdown()
            self._thread.join()
            self._server = None
