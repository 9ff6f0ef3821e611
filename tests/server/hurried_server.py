"""`edgefl serve` that waits no longer than two seconds for a handshake or a frame: for tests of what it does then."""

from __future__ import annotations

import sys
from functools import partial

from edgefl.cli import cli, serve
from edgefl.server import peer, server_setup

PATIENCE = peer.Patience(handshake_s=2.0, frame_s=2.0)

if __name__ == "__main__":
    peer.SLOWEST = 1 << 60  # so that a large frame gets no more time than a small one
    serve.host = partial(server_setup.host, patience=PATIENCE)
    sys.exit(cli.main())
