"""The device in one run, while its owner's conditions hold. The device itself is in device/device_protocol.py.

The device leaves before a request that it should not follow now, and while it waits for a request. A training that has
begun is finished and its reply sent, because the computation would have to be repeated otherwise. --max-seconds bounds
the time of the training. To its server, a device that leaves is like a device that is switched off. Its requests wait,
or their deadline closes the round without it. What the device has trained and kept is on its disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.agent.sample_file import SampleFile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import LeftError
from edgefl.errors import DataError
from edgefl.protocol.wire.messages import Evaluate, Hello, Message, ModelChunk, Train, Welcome

WORK = (ModelChunk, Train, Evaluate)


class GuardedDevice:
    """A device for DeviceSocket, which also calls `look`.

    leave_for_others  gets the seconds without a request, and returns why the device should turn to another server, or
                      None
    tell     shows the present activity
    say      shows one line to the user
    clock    time in seconds, of which only differences count
    """

    def __init__(
        self,
        device: Device,
        watch: ConditionMonitor,
        samples: SampleFile,
        leave_for_others: Callable[[float], str | None],
        tell: Callable[[str], None],
        say: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._device, self._watch, self._samples = device, watch, samples
        self._leave_for_others, self._tell, self._say, self._clock = leave_for_others, tell, say, clock
        self._asked_at = clock()
        self._method = ""

    @property
    def client(self) -> int | None:
        return self._device.client

    @property
    def is_waiting(self) -> bool:
        return self._device.is_waiting

    @property
    def frozen_bytes(self) -> int:
        return self._device.frozen_bytes

    @property
    def finished(self) -> str | None:
        return self._device.finished

    def hello(self, nonce: bytes) -> Hello:
        """Return the greeting of the device."""
        return self._device.hello(nonce)

    def handle(self, message: Message) -> Iterator[Message]:
        """Handle a message as the device does. Raises LeftError before work that the device should not do now."""
        if isinstance(message, WORK):
            self._check()
        if isinstance(message, Welcome):
            self._method = message.method
        if isinstance(message, Train):
            self._renew()
            self._tell(f"training round {message.round} of {self._method}")
        if isinstance(message, Evaluate):
            self._tell(f"evaluating after round {message.round} of {self._method}")
        yield from self._device.handle(message)
        self._asked_at = self._clock()
        if not isinstance(message, ModelChunk):
            self._tell(f"waiting for requests of {self._method}" if self._method else "enrolling")

    def look(self) -> None:
        """Look at the conditions and the other servers while no request is there. Raises LeftError to leave."""
        self._check()
        why = self._leave_for_others(self._clock() - self._asked_at)
        if why is not None:
            raise LeftError(why)

    def _check(self) -> None:
        why = self._watch.why_not()
        if why is not None:
            raise LeftError(why)

    def _renew(self) -> None:
        """Train on the newest samples from this round on, or on the former samples if the file cannot be used."""
        try:
            if self._samples.has_changed():
                self._device.renew(self._samples.newest())
                self._say(f"{self._samples.path} has changed; training on its present samples")
        except (DataError, OSError) as error:
            self._say(f"{error}; training on the earlier samples")
