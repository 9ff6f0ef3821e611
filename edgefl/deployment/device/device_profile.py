"""The statements of a device's owner that hold for every run: the identity of the device, and the work that it is
willing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from edgefl.deployment.device.request_limits import Bounds

if TYPE_CHECKING:
    from edgefl.protocol.secure.identity import SigningIdentity


class SecureProfile(NamedTuple):
    """The conditions of a device that takes part in runs with secure aggregation alone.

    identity    private half of the device's identity
    operator    32 bytes, public half of the operator's identity, by whose key the roster is signed. None: the run has
                no operator, and the server hands on the identities of the other devices
    federation  name of the federation. Empty: the name in the first roster that the device accepts
    least       least number of clients whose sum may be opened
    colluders   number of clients of a group who may tell the server all that they know
    """

    identity: SigningIdentity
    operator: bytes | None
    federation: str = ""
    least: int = 3
    colluders: int = 0


class DeviceProfile(NamedTuple):
    """One device as its owner describes it.

    client              id under which the device is registered. None: the server may choose an id
    key                 the 32 bytes that prove the id. None in a run without keys
    capacity            largest share of active neurons that the device is willing to train, above 0 and at most 1
    max_model           largest packed model that the device accepts, in bytes
    max_memory          most memory that model and training may take, in bytes. None: no limit
    max_seconds         longest time of a round's training, or of an evaluation, in seconds. None: no limit
    methods             names of the methods that the device takes part in. Empty: every method
    reports_throughput  whether the device measures how fast it trains and reports the speed to runs that plan by speed
    accepts_data        whether the device goes on in a run with other samples than it has trained on there
    secure              what the device asks of secure aggregation. None: it takes part in runs without secure
                        aggregation alone
    tags                what the owner says about the device, values by name (wire/tag_text.py)
    sleeps              whether the server may send the device away for a while when it has no work
    former_key          key that the device had before, whose runs go on with the present key. None: it had no other
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
    secure: SecureProfile | None = None
    tags: Mapping[str, str] = MappingProxyType({})
    sleeps: bool = False
    former_key: bytes | None = None

    @property
    def bounds(self) -> Bounds:
        """The limits on what the server may ask of the device."""
        return Bounds(self.max_model, self.max_memory, self.max_seconds)
