"""The messages for each node of a framework, and the time of its next call. round_sequence.py decides about rounds.

away     the node is called with Challenge, at once or some time after a failure
called   Hello and Enrol come back, and the coordinator admits the node as a client
open     Welcome and verdicts wait for the next request, and go with it
refused  the node is told why, and is not called again until it has gone and come back
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import Evaluate, Finished, Message, ModelParts, Refused, Train
from edgefl.server.server_handshake import ServerHandshake

AGAIN_S, LONGEST_S = 1.0, 30.0  # seconds before a node is called again. They double after each failure
ASKS = (Train, Evaluate, Finished, Refused)  # requests. An envelope goes as soon as a request waits

Stage = Literal["away", "called", "open", "refused"]


@dataclass
class RelayNode:
    """A node of the framework.

    name  its name in the framework
    link  number of its connection for the coordinator
    sent  envelope that it has not answered
    box   messages that wait for it
    listing  list of the model's parts, of which the node has not said which ones it has
    owes  whether it owes an earlier reply. It sends the reply in answer to its welcome, before it gets further requests
    """

    name: int
    stage: Stage = "away"
    call_at: float = -math.inf
    failures: int = 0
    link: int = 0
    client: int | None = None
    meeting: ServerHandshake | None = None
    has_model: bool = False
    takes_parts: bool = False  # whether it may have parts of the model
    listing: ModelParts | None = None
    owes: bool = False
    box: list[Message] = field(default_factory=list)
    sent: Envelope | None = None
    has_heard: bool = False  # whether it has heard that the run is over

    @property
    def who(self) -> str:
        """The name of the node for people."""
        return f"node {self.name}" + ("" if self.client is None else f", client {self.client}")

    def is_to_be_called(self, now: float) -> bool:
        """Return whether it is time to ask the node who it is."""
        return self.sent is None and self.stage == "away" and now >= self.call_at and not self.has_heard

    def welcome(self, client: int, said: list[Message]) -> None:
        """Note that the node is that client, which gets these messages first."""
        self.client, self.box, self.has_model = client, said, True

    def tell(self, message: Message) -> None:
        """Put a message into the box. A new request replaces a request that has not been sent."""
        if isinstance(message, ASKS):
            self.box = [waiting for waiting in self.box if not isinstance(waiting, ASKS)]
        self.box.append(message)

    def due(self) -> list[Message] | None:
        """Return the messages for the node now, or None."""
        if self.sent is None and self.listing is not None:
            return [self.listing]
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
        """Forget the connection and its messages. Return the link that the node had, or 0."""
        link, self.link, self.sent, self.box, self.owes = self.link, 0, None, [], False
        self.listing = None
        return link

    def fail(self, now: float) -> None:
        """Note a failure. The node is called again, later after each failure."""
        self.stage, self.call_at = "away", now + min(LONGEST_S, AGAIN_S * 2**self.failures)
        self.failures += 1
