"""The messages of a Flower federation that a crash of a device must not lose, in a folder. The runs are in
device/device_state.py.

    node.json     which node it is, of which SuperLink
    node.key      the key that it made for itself, where none was given: DER in hex, for its owner alone
    message.json  the message that it has been given: a SuperLink gives each once, so it is kept before anything else
    reply.json    what the answer to it says of itself; reply.bytes: the answer

A message is in hand until its reply is delivered. What is damaged counts as lost, and is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from edgefl.deployment.device.digest_record import read_sealed, seal
from edgefl.errors import RunError
from edgefl.system.durable_files import private_directory, sha256, sync, write_atomically

NODE, KEY, MESSAGE, REPLY, BYTES = "node.json", "node.key", "message.json", "reply.json", "reply.bytes"


class ReceivedMessage(NamedTuple):
    """A message of the SuperLink: the fields of its metadata, and its tree of objects."""

    metadata: dict[str, Any]
    tree: dict[str, Any]


class PendingReply(NamedTuple):
    """An answer on its way.

    metadata  the fields of its metadata
    envelope    its bytes; none where `error` says why there is no answer
    confirms  the id of the message that it answers
    seconds   that the answer took
    finished  why the run is over, or None while it is not
    """

    metadata: dict[str, Any]
    letter: bytes
    confirms: str
    seconds: float
    error: str = ""
    finished: str | None = None


class Mailbox:
    """The folder at `path`, made if it is missing. `say`: names what is damaged."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        private_directory(path)
        self.path, self._say = path, say

    def node(self, server: str, key: bytes) -> int | None:
        """The id that this SuperLink gave to the node with this public key; None if it has not."""
        found = self._read(NODE)
        is_it = found is not None and found.get("server") == server and found.get("key") == sha256(key)
        return found["node"] if found is not None and is_it else None

    def keep_node(self, server: str, key: bytes, node: int) -> None:
        """The node's id. What was in hand for another node is dropped: nobody waits for its answer."""
        if self.node(server, key) != node:
            self.drop()
        self._write(NODE, {"server": server, "key": sha256(key), "node": node})

    def made_key(self, make: Callable[[], bytes]) -> bytes:
        """The key of a device that was given none: made once. Raises RunError if it is damaged."""
        file = self.path / KEY
        if not file.exists():
            write_atomically(file, make().hex().encode(), 0o600)
        try:
            return bytes.fromhex(file.read_text("ascii"))
        except ValueError as error:
            raise RunError(f"{file} is damaged ({error}); remove it to be a new node") from None

    def keep_message(self, message: ReceivedMessage) -> None:
        """Before anything is done about it."""
        self._write(MESSAGE, message._asdict())

    def message(self) -> ReceivedMessage | None:
        """The message in hand."""
        found = self._read(MESSAGE)
        return None if found is None else ReceivedMessage(found["metadata"], found["tree"])

    def keep_reply(self, reply: PendingReply) -> None:
        """Before any of it is sent: once it is kept, the message itself is no longer needed."""
        write_atomically(self.path / BYTES, reply.letter, 0o600)
        self._write(REPLY, {**reply._asdict(), "letter": sha256(reply.letter)})

    def reply(self) -> PendingReply | None:
        """The answer on its way."""
        found = self._read(REPLY)
        if found is None:
            return None
        try:
            letter = (self.path / BYTES).read_bytes()
        except OSError:
            letter = b""
        if sha256(letter) != found["letter"]:
            self._lost(REPLY, f"{self.path / BYTES} is damaged; expected its SHA-256")
            return None
        return PendingReply(**{**found, "letter": letter})

    def drop(self) -> None:
        """The reply is delivered, or nobody wants it: nothing is in hand."""
        for name in (MESSAGE, REPLY, BYTES):  # a reply without its message still goes out, once more
            (self.path / name).unlink(missing_ok=True)
        sync(self.path)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return read_sealed(self.path / name)
        except RunError as error:
            self._lost(name, str(error))
            return None

    def _lost(self, name: str, why: str) -> None:
        (self.path / name).unlink(missing_ok=True)
        self._say(f"{why}; it counts as lost")

    def _write(self, name: str, record: dict[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(seal(record)).encode(), 0o600)
