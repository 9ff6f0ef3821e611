"""The ids that the server has given to devices. In some seeds devices ask for any id, and come in any order."""

from __future__ import annotations

from dataclasses import replace

from edgefl.experiment.assembled_experiment import AssembledExperiment
from tests.vopr.broken_promise import BrokenPromiseError
from tests.vopr.federation import Members


class Ids:
    """The ids of one simulation.

    devices   number of devices
    is_open   whether devices ask for any id. Otherwise a device asks for its own number
    """

    def __init__(self, devices: int, is_open: bool) -> None:
        self._devices, self.is_open = devices, is_open
        self._ids: dict[int, int] = {} if is_open else {device: device for device in range(devices)}
        self._asked = set(self._ids)

    def of(self, device: int) -> int | None:
        """Return the id of a device, or None before the server has let the device in."""
        return self._ids.get(device)

    def asked(self, device: int) -> int | None:
        """Return the id that a device asks for, or None if it asks for any."""
        return self._ids[device] if device in self._asked else None

    def ask(self, device: int) -> None:
        """Let a device ask for its id from now on, as somebody has put another device in its place."""
        self._asked.add(device)

    def admits(self, address: str, client: int) -> None:
        """Note that the server lets in the device at this address as this client. An id belongs to one device."""
        device = int(address.rpartition(":")[0].rpartition(".")[2])
        if self._ids.setdefault(device, client) != client or list(self._ids.values()).count(client) != 1:
            raise BrokenPromiseError(f"device {device} is let in as client {client}; the ids so far are {self._ids}")

    def placed(self, members: Members) -> Members:
        """Return the federation in which the samples of each device are those of its id."""
        experiment, federation = members.assembled.experiment, members.assembled.federation
        splits = tuple(federation.clients[device] for device in sorted(range(self._devices), key=self._place))
        return Members(AssembledExperiment.of(experiment, replace(federation, clients=splits)))

    def _place(self, device: int) -> int:
        return self._ids.get(device, self._devices)
