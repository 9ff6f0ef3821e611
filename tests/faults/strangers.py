"""python -m tests.faults.strangers PORT COUNT SECONDS: so many TLS connections to 127.0.0.1:PORT that do not enrol.

Each connection is made again a second after it is closed. The program prints a line when there are many connections.
When it is terminated, or at the end, it prints what it did as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import ssl
import sys
from collections import Counter
from typing import cast

AGAIN_S = 1.0
CONNECT_S = 30.0
CROWD = 256  # number of connections that were made, after which it says "there"


class Stranger(asyncio.Protocol):
    """One connection, which does its half of the TLS handshake and then nothing."""

    def __init__(self, context: ssl.SSLContext, counts: Counter[str]) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing)
        self._counts = counts
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._counts["connected"] += 1
        if self._counts["connected"] == CROWD:
            print("there", flush=True)
        self._shake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        self._shake()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.gone.done():  # cancelled, at the end
            self.gone.set_result(None)

    def _shake(self) -> None:
        try:
            self._session.do_handshake()
            self._counts["secured"] += 1
        except ssl.SSLWantReadError:
            pass
        self._transport.write(self._outgoing.read())


async def attack(port: int, count: int, seconds: float) -> Counter[str]:
    """Keep `count` connections for as long as possible. Count how many were made, and how many came to speak TLS."""
    context, counts, loop = ssl.create_default_context(), Counter[str](), asyncio.get_running_loop()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def again_and_again() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                made = loop.create_connection(lambda: Stranger(context, counts), "127.0.0.1", port)
                await (await asyncio.wait_for(made, CONNECT_S))[1].gone
            await asyncio.sleep(AGAIN_S)

    everybody = asyncio.gather(*(again_and_again() for _ in range(count)))
    loop.add_signal_handler(signal.SIGTERM, everybody.cancel)
    with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
        await asyncio.wait_for(everybody, seconds)
    return counts


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
