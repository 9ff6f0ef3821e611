"""`edgefl page RUN` shows a served run in a browser, during the run or after it, from the run's directory alone.

`edgefl serve --page` starts this command as a process of its own, with a socket that listens already.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path

from edgefl.cli.log_writer import say
from edgefl.cli.page_options import ANYWHERE, PageRequest, add_token, page_request
from edgefl.errors import RequestError, RunError
from edgefl.protocol.trust.tls import server_context
from edgefl.server.page.access import AccessRules
from edgefl.server.page.feed import RunFeed
from edgefl.server.page.http_server import PageServer, serve_page
from edgefl.server.page.markup import Markup
from edgefl.server.page.routes import Routes
from edgefl.server.run_view import RunView
from edgefl.system.log_lines import Alert

INTERRUPTED = "the page has ended"
NICENESS = 19  # lowest priority, as the rounds of the server come first
NAMES = ("--listen", "--token")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the address of the page, and the options of trust."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a served run, running or over")
    parser.add_argument(
        "--listen",
        default=ANYWHERE,
        metavar="ADDR:PORT",
        help="address of the page (default: a free port of 127.0.0.1, which is printed)",
    )
    trust = parser.add_argument_group("trust", "Browsers on other machines need TLS and a token, or --insecure.")
    add_token(trust, "--token")
    trust.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of the page")
    trust.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate --tls-cert")
    trust.add_argument("--insecure", action="store_true", help="show the page to other machines without TLS or a token")
    parser.add_argument("--until-input-ends", action="store_true", help=argparse.SUPPRESS)  # `edgefl serve` gives it
    parser.add_argument("--descriptor", type=int, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Show the page until the command is interrupted."""
    try:
        view = RunView(options.run)
        view.look(0.0)
    except RunError as error:
        raise RequestError(str(error)) from error
    os.nice(NICENESS)
    if options.until_input_ends:
        _end_with_input()
    trust = options.token, options.tls_cert, options.tls_key, options.insecure
    asked = page_request(options.listen, *trust, NAMES, options.descriptor)
    try:
        if options.descriptor is None:
            announce(asked, options.token)
        _show(view, asked)
    finally:
        asked.close()
    return 0


def announce(asked: PageRequest, token: Path | None) -> None:
    """Say where the page is, and which token it asks for."""
    say(f"page: {asked.url}" + ("" if token is None else f"?token=TOKEN, with the token in {token}"))
    if asked.token is None and not asked.is_loopback:
        say(Alert(f"--insecure: whoever reaches {asked.url} can read how the run goes"))


def _show(view: RunView, asked: PageRequest) -> None:
    feed = RunFeed(view)
    port = asked.address.sockets[0].getsockname()[1]
    rules = AccessRules(asked.token, asked.is_loopback, port, asked.tls_cert is not None)
    cert, key = asked.tls_cert, asked.tls_key
    context = None if cert is None or key is None else server_context(cert, key, None)
    serve_page(PageServer(asked.address.sockets[0], feed, Routes(feed, rules, Markup.read()), context, say))


def _end_with_input() -> None:
    """End this process when its standard input ends, because the process that started it is gone by then."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=wait, name="input", daemon=True).start()
