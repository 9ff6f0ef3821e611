"""A device that gets its messages in envelopes (wire/envelope.py), whoever carries the envelopes.

Each envelope stands for itself: the process may end after any envelope, and the next process opens the directory again.
A result of training is on the disk before its reply leaves. An envelope that comes twice is answered twice, with the
same bytes. The module uses no framework and no socket.

    Challenge  is answered with Hello and Enrol: who the device is, and what it holds
    ModelParts  alone in an envelope is answered with the parts of the model that the directory has
    Welcome    enrols, with the initial model in the same envelope. A reply that waits for its verdict goes again
    Verdict, Train, Evaluate, Finished  are handled as in device_protocol.py

The device trusts the framework to name the server. The server does not prove a key, as it does over a connection of our
own. The device proves its key, or the secret with which it enrolled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.model_download import SpoiltError
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
    ModelParts,
    ModelRequest,
    PartialModelRequest,
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

    path       its directory, as for `edgefl client --state`, with a folder for each run
    finished   why the run of the last envelope is over, or None while it goes on
    Raises     RunError if another process uses the directory.
    """

    def __init__(
        self,
        path: Path,
        profile: DeviceProfile,
        data: Data,
        world: DeviceEnvironment,
        make: MakeLearner | None = None,
        takes_parts: bool = True,
    ) -> None:
        """Open the directory. `make` and `takes_parts` are as for Device."""
        self._directory = StateDirectory(path)
        self._profile, self._data, self._world, self._make = profile, data, world, make
        self._takes_parts = takes_parts
        self._open: tuple[str, DeviceState, Device] | None = None
        self.finished: str | None = None

    @property
    def limit(self) -> int:
        """The size in bytes of the largest envelope that it reads: the model, and a message about it."""
        return frame_cap(self._profile.max_model) + 2 * self._profile.max_model

    def close(self) -> None:
        """Let another process have the directory."""
        self._open = None
        self._directory.close()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to an envelope of the server, which may have no messages. After a failure it has Refused.

        Raises  RemoteProtocolError if the bytes are not an envelope of a server, so that there is nobody to answer.
        """
        envelope = envelopes.decode("server", data, self.limit)
        try:
            found = tuple(self._answers(envelope))
        except SpoiltError as error:  # the server calls again, because an answer is missing
            self._open, found = None, ()
            self._world.say(str(error))
        except EdgeflError as error:
            self._open = None
            self._world.say(str(error))
            found = (Refused(str(error)[:LONGEST_TEXT]),)
        return envelopes.encode("device", Envelope(envelope.run, found))

    def _answers(self, envelope: Envelope) -> Iterator[Message]:
        state, device = self._device(envelope.run)
        self.finished = None
        replied = 0  # the round whose reply is in this answer, which Welcome, the model and Train ask for
        for message in envelope.messages:
            for reply in self._said(envelope.run, state, device, message):
                if not isinstance(reply, Trained) or reply.round != replied:
                    yield reply
                replied = reply.round if isinstance(reply, Trained) else replied
        if envelope.messages and isinstance(envelope.messages[-1], ModelParts):
            yield device.lacking()

    def _said(self, run: str, state: DeviceState, device: Device, message: Message) -> Iterator[Message]:
        if isinstance(message, Challenge):
            yield device.hello(self._world.random_bytes(NONCE_BYTES))
        elif isinstance(message, AFTER_WELCOME) and state.enrolment is None:
            raise RemoteProtocolError(f"{type(message).__name__} in run {run}, before its server welcomed this device")
        elif isinstance(message, Welcome) and device.client not in (None, message.client):
            raise RemoteProtocolError(f"Welcome with client={message.client}; expected {device.client}")
        if isinstance(message, Train) and message.round == state.pending:
            yield state.reply()  # the envelope has come before
            return
        for reply in device.handle(message):
            if not isinstance(reply, ModelRequest | PartialModelRequest):  # the model is in the envelope
                yield reply
        if isinstance(message, Finished):
            self.finished = message.reason
            self._directory.over(state.path, run, message.reason)

    def _device(self, run: str) -> tuple[DeviceState, Device]:
        """Return the device in that run. One device is open at a time."""
        if self._open is None or self._open[0] != run:
            state = self._directory.open(run, self._profile.key)
            device = Device(
                state, self._profile, self._data, self._world, self._make, True, takes_parts=self._takes_parts
            )
            self._open = run, state, device
        return self._open[1:]
