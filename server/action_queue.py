"""The actions that the parts of a coordinator decide on, in the order in which the server has to carry them out."""

from __future__ import annotations

from edgefl.protocol.wire.messages import Message
from edgefl.server.client_links import ClientConnection
from edgefl.server.events import Action, Record, Save, Send


class ActionQueue:
    """The actions that have been decided on and not yet handed to the server.

    Every part of a coordinator adds to one queue, so that the order of actions is the order of decisions.
    """

    def __init__(self) -> None:
        self._actions: list[Action] = []

    def add(self, action: Action) -> None:
        """Add an action behind the actions that are waiting."""
        self._actions.append(action)

    def save(self, record: Record) -> None:
        """Add the action that makes the record durable."""
        self._actions.append(Save(record))

    def send(self, link: ClientConnection, message: Message) -> None:
        """Add the action that sends the message over the client's connection."""
        self._actions.append(Send(link.number, message))

    def taken(self) -> list[Action]:
        """Return the waiting actions in order. The queue is empty afterwards."""
        actions, self._actions = self._actions, []
        return actions
