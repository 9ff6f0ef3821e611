"""A scripted server that sends its device away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgefl.protocol.wire.messages import ComeAgain, DeviceNotice, Message
from tests.deployment.device.device_server import ScriptedServer


@dataclass
class SleepyServer(ScriptedServer):
    """Sends its device away so many times, for so many seconds, instead of answering a message of the type `after`."""

    seconds: float = 412.0
    times: int = 1
    after: type[Message] = DeviceNotice

    @staticmethod
    def like(server: ScriptedServer) -> SleepyServer:
        """Return a server with the run of another server."""
        return SleepyServer(server.welcome, server.model, server.script, server.evaluate)

    def answers(self, message: Message) -> Iterator[Message]:
        """Yield the answers of the server to a message."""
        if isinstance(message, self.after) and self.times:
            self.times -= 1
            self.received.append(message)
            yield ComeAgain(self.seconds)
        else:
            yield from super().answers(message)
