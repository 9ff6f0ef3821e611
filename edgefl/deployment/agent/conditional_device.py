"""The device in one run, while its owner's conditions hold: it leaves before a request that it should not follow now,
and while nothing is asked for. Not the device itself (device/device_protocol.py).

A training that has begun is finished and its reply sent: what was computed would be computed again, and --max-seconds
bounds it. To its server a device that leaves is one that is switched off: its requests wait for it, or their deadline
closes the round without it; what it has trained and kept is on its disk.
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
    """A device for DeviceSocket. `look` is for it, too.

    leave_for_others  why the device should see another server, after so many seconds without a request; None: stay
    tell     what the device does now
    clock    seconds, of which only differences count
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
    def finished(self) -> str | None:
        return self._device.finished

    def hello(self, nonce: bytes) -> Hello:
        """The greeting of the device."""
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
        """While nothing is asked for. Raises LeftError."""
        self._check()
        why = self._leave_for_others(self._clock() - self._asked_at)
        if why is not None:
            raise LeftError(why)

    def _check(self) -> None:
        why = self._watch.why_not()
        if why is not None:
            raise LeftError(why)

    def _renew(self) -> None:
        """From this round on the newest samples; those that there were, if the file is nothing to train on."""
        try:
            if self._samples.has_changed():
                self._device.renew(self._samples.newest())
                self._say(f"{self._samples.path} has changed; training on what is in it now")
        except (DataError, OSError) as error:
            self._say(f"{error}; training on the samples of before")
