"""The messages for each node of a framework, and the time of its next call. round_sequence.py decides about rounds.

away     it is called with Challenge, at once or some time after something failed
called   Hello and Enrol come back; the coordinator admits it as a client
open     Welcome waits for the first thing to do and goes with it, and so does each verdict for the next one
refused  it is told why, and not called again until it has gone and come back
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import Evaluate, Finished, Message, Refused, Train
from edgefl.server.server_handshake import ServerHandshake

AGAIN_S, LONGEST_S = 1.0, 30.0  # before a node is called again: twice as long after each failure, up to that
ASKS = (Train, Evaluate, Finished, Refused)  # an envelope goes as soon as one of these waits

Stage = Literal["away", "called", "open", "refused"]


@dataclass
class RelayNode:
    """name: the framework's; link: its connection, to the coordinator; sent: the envelope that it has not answered;
    box: what waits to be told it; owes: a reply of before, which it sends in answer to its welcome and before it hears
    more.
    """

    name: int
    stage: Stage = "away"
    call_at: float = -math.inf
    failures: int = 0
    link: int = 0
    client: int | None = None
    meeting: ServerHandshake | None = None
    has_model: bool = False
    owes: bool = False
    box: list[Message] = field(default_factory=list)
    sent: Envelope | None = None
    has_heard: bool = False  # that the run is over

    @property
    def who(self) -> str:
        """The name of the node for people."""
        return f"node {self.name}" + ("" if self.client is None else f", client {self.client}")

    def is_to_be_called(self, now: float) -> bool:
        """Whether it is time to ask it who it is."""
        return self.sent is None and self.stage == "away" and now >= self.call_at and not self.has_heard

    def welcome(self, client: int, said: list[Message]) -> None:
        """Note that the node is that client, which gets this message first."""
        self.client, self.box, self.has_model = client, said, True

    def tell(self, message: Message) -> None:
        """What it was to be asked, and has not been, is over when something else is asked."""
        if isinstance(message, ASKS):
            self.box = [waiting for waiting in self.box if not isinstance(waiting, ASKS)]
        self.box.append(message)

    def due(self) -> list[Message] | None:
        """The message for the node now; None: no message yet."""
        if self.sent is not None or not self.box:
            return None
        if self.owes:
            said = [waiting for waiting in self.box if not isinstance(waiting, ASKS)]
            self.box, self.owes = [waiting for waiting in self.box if isinstance(waiting, ASKS)], False
            return said
        if any(isinstance(waiting, ASKS) for waiting in self.box):
            said, self.box = self.box, []
            return said
        return None

    def leave(self) -> int:
        """What it was told is lost, and so is what it had to say; the link that it had, 0 if none."""
        link, self.link, self.sent, self.box, self.owes = self.link, 0, None, [], False
        return link

    def fail(self, now: float) -> None:
        """Something failed: it is called again, later each time."""
        self.stage, self.call_at = "away", now + min(LONGEST_S, AGAIN_S * 2**self.failures)
        self.failures += 1
