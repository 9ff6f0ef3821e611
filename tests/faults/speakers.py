"""python -m tests.faults.speakers ADDRESS KEYS FIRST COUNT CA SEED: one process that speaks the protocol for many
devices with keys and TLS, which join, leave, sleep and come back at random until they are told that the run is over.

They tell the tag kind=speaker, and the server's choice has to leave out devices with this tag, as they cannot train.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import sys
from asyncio import sslproto
from pathlib import Path

from bench.puppets import Puppet, identity
from edgefl.protocol.trust.keys import read_table
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.attendance_messages import ComeAgain, DeviceNotice
from edgefl.protocol.wire.messages import Challenge, Enrol, Finished, Hello, Message, Train

STAYS_S = 0.5, 20.0  # shortest and longest time for which a speaker is connected
AWAY_S = 0.2, 10.0  # shortest and longest time for which it is away
LEAVES = 0.2  # share of departures that are told to the server
SLEEPS = 0.5  # share of connections in which the server may send the speaker away


class Speaker(Puppet):
    """A device with a key.

    sleeps_s  seconds for which the server has sent it away, or None
    is_told   whether the server has said that it has left, or that the run is over
    """

    def __init__(self, client: int, key: bytes, sleeps: bool) -> None:
        super().__init__(client)
        self._key, self._sleeps = key, sleeps
        self.sleeps_s: float | None = None
        self.is_told = False
        self.ready.add_done_callback(self._tell)

    def _tell(self, ready: asyncio.Future[None]) -> None:
        if self._connection.state == "ready":
            self._say(DeviceNotice({"kind": "speaker"}, self._sleeps, False))

    def leave(self) -> None:
        """Tell the server that the device leaves."""
        if self._connection.state == "ready":
            self._say(DeviceNotice({}, False, True))

    def _say(self, message: Message) -> None:
        if isinstance(message, Hello):
            self._hello = message
        super()._say(message)

    def _answer(self, message: Message) -> Message | None:
        if isinstance(message, Challenge):
            meeting = message.run, self._client, self._hello.nonce, message.nonce
            proof = handshake.proof(self._key, "device", *meeting)
            return Enrol(proof, 1.0, b"", 0, b"", *identity(self._client)[1:], b"", [20, 0, 5])
        if isinstance(message, Train):
            raise RuntimeError(f"client {self._client} is asked to train; expected a choice without kind=speaker")
        if isinstance(message, ComeAgain):
            self.sleeps_s = message.seconds
        self.is_told |= isinstance(message, Finished)
        return super()._answer(message)


async def live(client: int, key: bytes, host: str, port: int, context: ssl.SSLContext, draw: random.Random) -> None:
    """Play one device until the server says that the run is over. A server that is not there is tried again."""
    loop = asyncio.get_running_loop()
    while True:
        speaker, is_leaving = Speaker(client, key, draw.random() < SLEEPS), draw.random() < LEAVES
        away_s = draw.uniform(*AWAY_S)
        try:
            await loop.create_connection(lambda speaker=speaker: speaker, host, port, ssl=context)  # type: ignore[misc]
            await asyncio.wait([speaker.over], timeout=draw.uniform(*STAYS_S))
            if is_leaving:
                speaker.leave()
                await asyncio.wait([speaker.over], timeout=5.0)
            elif speaker.is_told:
                return
            away_s = away_s if speaker.sleeps_s is None else speaker.sleeps_s
            speaker.transport.close()
        except OSError:
            away_s = draw.uniform(0.2, 2.0)
        await asyncio.sleep(away_s)


async def main_of(words: list[str]) -> None:
    """Play the devices that the words describe."""
    address, keys, first, count, ca, seed = words
    host, _, port = address.rpartition(":")
    table, context = read_table(Path(keys)), ssl.create_default_context(cafile=ca)
    clients = range(int(first), int(first) + int(count))
    draws = {client: random.Random(f"{seed} {client}") for client in clients}
    everybody = (live(client, table[client], host, int(port), context, draws[client]) for client in clients)
    await asyncio.gather(*everybody)


if __name__ == "__main__":
    sslproto.SSLProtocol.max_size = 1 << 14  # of asyncio's buffer for each connection
    asyncio.run(main_of(sys.argv[1:]))
