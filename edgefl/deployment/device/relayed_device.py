"""A device that is told what to do in envelopes (wire/envelope.py), whoever carries them. No framework, no socket.

Each envelope stands for itself: the process may end after any of them, and the next one opens the directory again. What
was trained is on the disk before its reply leaves; an envelope that comes twice is answered twice, with the same bytes.

    Challenge  who the device is, what it holds: Hello and Enrol
    Welcome    enrols, with the initial model in the same envelope; a reply that waits for its verdict goes again
    Verdict, Train, Evaluate, Finished  as device_protocol.py has them

The server is believed to be the one that the framework says it is: unlike over a connection of our own, it proves no
key. The device proves its key, or the secret that it enrolled with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.errors import EdgeflError, RemoteProtocolError
from edgefl.learning.learner import MakeLearner
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.handshake import NONCE_BYTES
from edgefl.protocol.wire.messages import (
    LONGEST_TEXT,
    Challenge,
    Evaluate,
    Finished,
    Message,
    ModelChunk,
    ModelRequest,
    Refused,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import frame_cap

AFTER_WELCOME = (ModelChunk, Train, Evaluate, Verdict, Finished)


class RelayClient:
    """One device in any number of runs, one envelope at a time.

    path       its directory, as `edgefl client --state`: a folder for each run
    finished   why the run of the last envelope is over, or None while it is not
    Raises     RunError if another process uses the directory.
    """

    def __init__(
        self, path: Path, profile: DeviceProfile, data: Data, world: DeviceEnvironment, make: MakeLearner | None = None
    ) -> None:
        """`make`: as for Device."""
        self._directory = StateDirectory(path)
        self._profile, self._data, self._world, self._make = profile, data, world, make
        self._open: tuple[str, DeviceState, Device] | None = None
        self.finished: str | None = None

    @property
    def limit(self) -> int:
        """Bytes of the largest envelope that it reads: the model, and a message about it."""
        return frame_cap(self._profile.max_model) + 2 * self._profile.max_model

    def close(self) -> None:
        """Lets another process have the directory."""
        self._open = None
        self._directory.close()

    def answer(self, data: bytes) -> bytes:
        """The answer to an envelope of the server: at times empty of messages. What cannot be done is refused in words.

        Raises  RemoteProtocolError if the bytes are no envelope of a server, of which nobody could be told.
        """
        envelope = envelopes.decode("server", data, self.limit)
        try:
            found = tuple(self._answers(envelope))
        except EdgeflError as error:
            self._open = None
            self._world.say(str(error))
            found = (Refused(str(error)[:LONGEST_TEXT]),)
        return envelopes.encode("device", Envelope(envelope.run, found))

    def _answers(self, envelope: Envelope) -> Iterator[Message]:
        state, device = self._device(envelope.run)
        self.finished = None
        replied = 0  # the round whose reply is in this answer: Welcome, the model and Train each ask for it
        for message in envelope.messages:
            for reply in self._said(envelope.run, state, device, message):
                if not isinstance(reply, Trained) or reply.round != replied:
                    yield reply
                replied = reply.round if isinstance(reply, Trained) else replied

    def _said(self, run: str, state: DeviceState, device: Device, message: Message) -> Iterator[Message]:
        if isinstance(message, Challenge):
            yield device.hello(self._world.random_bytes(NONCE_BYTES))
        elif isinstance(message, AFTER_WELCOME) and state.enrolment is None:
            raise RemoteProtocolError(f"{type(message).__name__} in run {run}, which has not welcomed this device")
        elif isinstance(message, Welcome) and device.client not in (None, message.client):
            raise RemoteProtocolError(f"Welcome with client={message.client}; expected {device.client}")
        if isinstance(message, Train) and message.round == state.pending:
            yield state.reply()  # the envelope has come before
            return
        for reply in device.handle(message):
            if not isinstance(reply, ModelRequest):  # the model is in the envelope
                yield reply
        if isinstance(message, Finished):
            self.finished = message.reason
            self._directory.over(state.path, run, message.reason)

    def _device(self, run: str) -> tuple[DeviceState, Device]:
        """The device in that run. One is open at a time."""
        if self._open is None or self._open[0] != run:
            state = self._directory.open(run, self._profile.key)
            device = Device(state, self._profile, self._data, self._world, self._make, is_vouched=True)
            self._open = run, state, device
        return self._open[1:]
