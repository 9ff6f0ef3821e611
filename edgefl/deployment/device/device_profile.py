"""The statements of a device's owner that hold for every run: the identity of the device, and the work that it is
willing to do.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.deployment.device.request_limits import Bounds


class DeviceProfile(NamedTuple):
    """One device as its owner describes it.

    client              the id that the device is registered under; None where the server may choose an id
    key                 the 32 bytes that prove the id; None in a run without keys
    capacity            the largest share of active neurons that the device is willing to train, above 0 and at most 1
    max_model           the largest packed model that the device accepts, in bytes
    max_memory          the most memory that model and training may take, in bytes; None: no limit
    max_seconds         the longest time that a round's training, or an evaluation, may take; None: no limit
    methods             names of the methods that the device takes part in; empty: every method
    reports_throughput  whether the device measures how fast it trains and reports the speed to runs that plan by speed
    accepts_data        whether the device goes on in a run with other samples than it has trained on there
    """

    client: int | None
    key: bytes | None
    capacity: float
    max_model: int
    max_memory: int | None = None
    max_seconds: float | None = None
    methods: tuple[str, ...] = ()
    reports_throughput: bool = True
    accepts_data: bool = False

    @property
    def bounds(self) -> Bounds:
        """The limits on what the server may ask of the device."""
        return Bounds(self.max_model, self.max_memory, self.max_seconds)
