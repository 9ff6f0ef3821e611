"""The download of a run's initial model: what the device asks for, what it adds from its own store, and the check at
the end. device_protocol.py has the rest of the conversation, and device_state.py the file.

The file of a download is always a beginning of the packed model. So a download that broke off goes on at the length of
the file, whichever parts come from the server and whichever from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgefl.deployment.device.base_store import StoredPart
from edgefl.deployment.device.device_environment import DeviceEnvironment, Written, durably
from edgefl.deployment.device.device_state import DeviceState
from edgefl.errors import RemoteProtocolError, RunError
from edgefl.protocol.wire.messages import Message, ModelChunk, ModelPart, ModelRequest, PartialModelRequest, Welcome
from edgefl.protocol.wire.model_parts import bitmap, total_bytes

SPOILT_TRIES = 3  # whole downloads with another digest, after which the device asks for no more


class SpoiltError(RunError):
    """A download that has to be made again from its beginning, over a new connection."""


class WrongModelError(RemoteProtocolError):
    """A model that has another digest than the server states, however often it is downloaded."""


class ModelDownload:
    """The download of one device, over any number of connections.

    most_s  seconds after the first spoilt download in which another download may begin. None: no limit
    """

    def __init__(self, state: DeviceState, world: DeviceEnvironment, most_s: float | None) -> None:
        self._state, self._world, self._most_s = state, world, most_s
        self._offset = 0  # byte of the model at which this connection's download began
        self._spoilt, self._spoilt_since = 0, 0.0  # number of downloads with another digest, time of the first
        self._parts: list[ModelPart] = []  # parts that the server lists in this connection
        self._held: dict[int, tuple[int, StoredPart]] = {}  # by first byte: end of the part, and its place in the store

    def begin(self) -> None:
        """Forget the list of an earlier connection."""
        self._parts, self._held = [], {}

    def offer(self, parts: list[ModelPart]) -> None:
        """Take the server's list of parts that may lie in the store."""
        self._parts = parts

    @property
    def listed_bytes(self) -> int:
        """The bytes of the parts that the server has listed in this connection."""
        return total_bytes(self._parts)

    def restart(self) -> None:
        """Drop the bytes of a download that broke off. A download by envelopes comes as a whole."""
        if self._state.received():
            self._add(0, b"")

    def request(self) -> Message:
        """Return the request for what is missing. What the store has next is added to the file afterwards."""
        self._offset = self._state.received()
        found = self._state.base.find((part.digest, part.size) for part in self._parts)
        self._held = {
            part.offset: (part.offset + part.size, found[part.digest]) for part in self._parts if part.digest in found
        }
        if not self._held:
            return ModelRequest(self._offset)
        held, listed = total_bytes(self._parts_held()), self.listed_bytes
        self._world.say(f"{held} of {listed} bytes of the model's frozen part lie in {self._state.base.path} already")
        return PartialModelRequest(self._offset, bitmap([part.offset in self._held for part in self._parts]))

    def add_held(self, model_bytes: int) -> bool:
        """Add the parts of the store that come next. Return whether the model now has all of its bytes."""
        while (found := self._next_held()) is not None:
            first, (end, part) = found
            skipped = self._state.received() - first
            for data in part.read():
                if skipped < len(data):
                    self._add(self._state.received(), data[max(skipped, 0) :])
                skipped -= len(data)
            if self._state.received() < end:
                raise SpoiltError(f"{part.file} lacks bytes of the model; downloading them")
        return self._state.received() == model_bytes

    def add(self, chunk: ModelChunk, model_bytes: int) -> bool:
        """Add bytes from the server, and the parts of the store that follow. Return whether the model is whole."""
        if chunk.offset > self._state.received():
            raise SpoiltError(f"{self._state.base.path} has lost a part of the model since it was listed; asking again")
        self._add(chunk.offset, chunk.data)
        return self.add_held(model_bytes)

    def complete(self, welcome: Welcome) -> None:
        """Take the download as the initial model, or download it again if a loss of power has spoilt it.

        The store keeps the parts that the server has listed.
        """
        if self._durably(lambda: self._state.complete(welcome.model_digest)):
            self._keep_parts()
            return
        now = self._world.clock()
        self._spoilt_since = self._spoilt_since if self._spoilt else now
        self._spoilt += 1
        digest = f"{welcome.model_digest.hex()[:16]}..."
        message = f"model of {welcome.model_bytes} bytes does not have the SHA-256 {digest} that the server announced"
        if not self._offset:
            raise WrongModelError(message)
        if self._spoilt >= SPOILT_TRIES:
            raise WrongModelError(f"{message} after each of {self._spoilt} downloads; expected an undamaged download")
        if self._most_s is not None and now - self._spoilt_since > self._most_s:
            passed = f"{now - self._spoilt_since:.3g} s after the first spoilt download"
            raise WrongModelError(f"{message} {passed}; --max-seconds {self._most_s:g} allows no other download")
        raise SpoiltError(f"{message}; downloading it again")

    def _parts_held(self) -> Iterator[ModelPart]:
        return (part for part in self._parts if part.offset in self._held)

    def _next_held(self) -> tuple[int, tuple[int, StoredPart]] | None:
        """Return the part of the store in which the next byte lies, or None if the server sends the next byte."""
        at = self._state.received()
        return next((each for each in self._held.items() if each[0] <= at < each[1][0]), None)

    def _add(self, offset: int, data: bytes) -> None:
        self._durably(lambda: self._state.add(offset, data))

    def _keep_parts(self) -> None:
        """Keep the listed parts for later runs. A device goes on without them if the disk refuses."""
        if not self._parts:
            return
        try:
            self._state.base.keep([(part.digest, self._state.part(part.offset, part.size)) for part in self._parts])
        except OSError as error:
            self._world.say(
                f"{self._state.base.path} cannot be written ({error}); later runs fetch the frozen part again"
            )

    def _durably(self, write: Callable[[], Written]) -> Written:
        return durably(write, self._state.path, self._world)
