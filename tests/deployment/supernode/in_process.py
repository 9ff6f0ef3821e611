"""A Grid whose nodes answer in this process, for tests: Flower's own messages, apps and contexts, and no SuperLink.

What is sent goes through Flower's own bytes. A node may be away, be killed before it answers, or answer and lose that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity


def through_bytes(content: RecordDict) -> RecordDict:
    """Return the content as it arrives."""
    objects = {name: each.deflate() for name, each in get_all_nested_objects(content).items()}
    return inflate_object_from_contents(get_object_id(content.deflate()), objects)


class InProcessGrid(Grid):
    """Nodes 100, 101, ... with partitions 0, 1, ...

    fate   of each envelope, by its number from 0: "answer", "lost" before the node has it, "silent" after the answer
    asked  (purpose, bytes) of every envelope that was sent
    """

    def __init__(self, app: ClientApp, count: int, fate: Callable[[int], str] = lambda number: "answer") -> None:
        self.app, self.fate = app, fate
        self.contexts = {100 + k: Context(1, 100 + k, {"partition-id": k}, RecordDict(), {}) for k in range(count)}
        self.asked: list[tuple[str, int]] = []
        self._answers: dict[str, Message] = {}
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = (
            1,
            1,
            1,
        )  # who sends, as Flower's processes say

    @property
    def run(self) -> Any:
        return None

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        names = list(self.push_messages(messages))
        return self.pull_messages(names)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._answers.pop(each) for each in message_ids if each in self._answers]

    def _push(self, message: Message) -> str:
        number, name = len(self.asked), f"message {len(self.asked)}"
        self.asked.append((message.metadata.message_type, message.content.object_id))
        message.metadata.__dict__["_message_id"] = name
        sent = Message(through_bytes(message.content), message.metadata.dst_node_id, message.metadata.message_type)
        sent.metadata.__dict__["_message_id"] = name
        fate = self.fate(number)
        reply = None
        if fate != "lost":
            reply = self.app(sent, self.contexts[message.metadata.dst_node_id])
        if fate == "answer":
            assert reply is not None
            reply.__dict__["_content"] = through_bytes(reply.content)
            self._answers[name] = reply
        else:
            self._answers[name] = Message(Error(3, "the node went away"), reply_to=sent)
        return name
