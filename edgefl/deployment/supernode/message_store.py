"""The messages of a Flower federation that a crash of a device must not lose, in a folder. The runs are in
device/device_state.py.

    node.json     id of the node, and address of its SuperLink
    node.key      the key that the node made for itself, if it needed one: DER in hex, readable by its owner alone
    message.json  the message in hand. A SuperLink gives each message once, so it is kept before anything else
    reply.json    the reply to it without its bytes. They are in reply.bytes

A message is in hand until its reply is delivered. A damaged file counts as lost, and the user is told its name.
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
    """A reply on its way.

    metadata  fields of its metadata
    letter    its envelope. Empty where `error` says why there is no answer
    confirms  id of the message that it answers
    seconds   seconds that the answer took
    finished  why the run is over, or None while it goes on
    """

    metadata: dict[str, Any]
    letter: bytes
    confirms: str
    seconds: float
    error: str = ""
    finished: str | None = None


class Mailbox:
    """The folder at `path`, which is made if it is missing. `say` tells the user which files are damaged."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        private_directory(path)
        self.path, self._say = path, say

    def node(self, server: str, key: bytes) -> int | None:
        """Return the id that this SuperLink gave to the node with this public key, or None before it did."""
        found = self._read(NODE)
        is_it = found is not None and found.get("server") == server and found.get("key") == sha256(key)
        return found["node"] if found is not None and is_it else None

    def keep_node(self, server: str, key: bytes, node: int) -> None:
        """Keep the id of the node. A message in hand for another node is dropped, as nobody waits for its answer."""
        if self.node(server, key) != node:
            self.drop()
        self._write(NODE, {"server": server, "key": sha256(key), "node": node})

    def made_key(self, make: Callable[[], bytes]) -> bytes:
        """Return the key that the device makes once for itself. Raises RunError if its file is damaged."""
        file = self.path / KEY
        if not file.exists():
            write_atomically(file, make().hex().encode(), 0o600)
        try:
            return bytes.fromhex(file.read_text("ascii"))
        except ValueError as error:
            raise RunError(f"{file} is damaged ({error}); remove it to be a new node") from None

    def keep_message(self, message: ReceivedMessage) -> None:
        """Keep a message before anything is done about it."""
        self._write(MESSAGE, message._asdict())

    def message(self) -> ReceivedMessage | None:
        """Return the message in hand, or None."""
        found = self._read(MESSAGE)
        return None if found is None else ReceivedMessage(found["metadata"], found["tree"])

    def keep_reply(self, reply: PendingReply) -> None:
        """Keep a reply before any of it is sent. Once it is kept, the message itself is no longer needed."""
        write_atomically(self.path / BYTES, reply.letter, 0o600)
        self._write(REPLY, {**reply._asdict(), "letter": sha256(reply.letter)})

    def reply(self) -> PendingReply | None:
        """Return the reply on its way, or None."""
        found = self._read(REPLY)
        if found is None:
            return None
        try:
            letter = (self.path / BYTES).read_bytes()
        except OSError:
            letter = b""
        if sha256(letter) != found["letter"]:
            self._lost(REPLY, f"{self.path / BYTES} is damaged; expected content with its SHA-256")
            return None
        return PendingReply(**{**found, "letter": letter})

    def drop(self) -> None:
        """Drop the message in hand and its reply, which is delivered, or which nobody wants."""
        for name in (MESSAGE, REPLY, BYTES):  # after a crash between two removals, the reply is sent once more
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
        self._say(f"{why}; the reply counts as lost")

    def _write(self, name: str, record: dict[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(seal(record)).encode(), 0o600)
