"""python -m bench.puppets ADDRESS CLIENTS STAY [CA]: one process that speaks the protocol for many devices.

They train nothing. What a request carries goes back as its reply, which is a valid reply for FedAvg. All CLIENTS enrol.
All but the last STAY leave at once, and the very last one comes when they are no longer there. CLIENTS is a number of
devices, or a file that lists their ids as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import secrets
import ssl
import sys
from asyncio import sslproto
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.handshake import NONCE_BYTES
from edgefl.protocol.wire.messages import (
    PROTOCOL,
    Challenge,
    Enrol,
    Evaluate,
    Evaluated,
    Finished,
    Hello,
    Message,
    ModelRequest,
    Refused,
    Scores,
    Train,
    Trained,
    Welcome,
)

AT_ONCE = 100  # devices that enrol at the same time
GONE_S = 2.0  # seconds until devices that left are no longer counted as there
EXAMPLES = 10


class Puppet(asyncio.Protocol):
    """A device.

    `ready` is set when it has enrolled and holds the model, `over` when the run or its connection is over.
    """

    def __init__(self, client: int) -> None:
        loop = asyncio.get_running_loop()
        self._client, self._connection = client, Connection("device")
        self.ready: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._say(Hello(PROTOCOL, "", self._client, secrets.token_bytes(NONCE_BYTES), "a puppet"))

    def data_received(self, data: bytes) -> None:
        for message in self._connection.receive(data):
            if isinstance(message, Refused):
                raise RuntimeError(f"client {self._client} is refused: {message.reason}")
            if (answer := self._answer(message)) is not None:
                self._say(answer)
            if isinstance(message, Finished):
                self.transport.close()
        if self._connection.state == "ready" and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.ready, self.over):
            if not future.done():
                future.set_result(None)

    def _say(self, message: Message) -> None:
        self.transport.write(self._connection.send(message))

    def _answer(self, message: Message) -> Message | None:
        if isinstance(message, Challenge):
            return Enrol(b"", 1.0, b"", 0, *identity(self._client), b"", [EXAMPLES, 0, EXAMPLES])
        if isinstance(message, Welcome):
            return ModelRequest(0)
        if isinstance(message, Train):
            return Trained(message.round, message.payload, b"", EXAMPLES, 1, "on", {}, 0.0)
        if isinstance(message, Evaluate):
            scores = Scores(1.0, 1, EXAMPLES)
            return Evaluated(message.round, scores if message.personal else None, scores if message.payload else None)
        return None


async def play(
    host: str, port: int, ids: Sequence[int], stay: int, context: ssl.SSLContext | None, gone_s: float
) -> None:
    """Play the devices of these clients until the run is over."""
    loop, turns = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)

    async def enrol(client: int, leaves: bool) -> Puppet:
        async with turns:
            _, puppet = await loop.create_connection(lambda: Puppet(client), host, port, ssl=context)
            await puppet.ready
            if leaves:
                puppet.transport.close()
                await puppet.over
            return puppet

    leaving, staying, last = ids[:-stay], ids[-stay:-1], ids[-1]
    await asyncio.gather(*(enrol(client, True) for client in leaving))
    there = await asyncio.gather(*(enrol(client, False) for client in staying))
    await asyncio.sleep(gone_s)
    there.append(await enrol(last, False))
    await asyncio.gather(*(puppet.over for puppet in there))


def identity(client: int) -> tuple[bytes, int, bytes]:
    """Return the secret of a client's device, the round of the state that it holds, and the life of its directory."""
    return hashlib.sha256(b"secret %d" % client).digest(), 0, hashlib.md5(b"life %d" % client).digest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.puppets", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("clients", help="number of devices, or a file that lists their ids as JSON")
    parser.add_argument("stay", type=int)
    parser.add_argument("ca", nargs="?", help="certificate of the authority, for TLS")
    parser.add_argument("--gone-s", type=float, help="seconds before the last device comes")
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    is_count = options.clients.isdecimal()
    ids = list(range(int(options.clients))) if is_count else json.loads(Path(options.clients).read_text())
    gone_s = options.gone_s if options.gone_s is not None else GONE_S if options.stay < len(ids) else 0
    context = None if options.ca is None else ssl.create_default_context(cafile=options.ca)
    sslproto.SSLProtocol.max_size = 1 << 14  # our side's buffer: a thousand of asyncio's own would take 256 MB
    asyncio.run(play(host, int(port), ids, options.stay, context, gone_s))
    return 0


if __name__ == "__main__":
    sys.exit(main())
