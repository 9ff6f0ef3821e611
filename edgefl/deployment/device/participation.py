"""A device's participation in one run: it asks which run its server serves, takes part, and records that it is over.
Or it leaves the run before that.

The agent (agent/service.py) has turns instead, because it leaves a run before its end.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.deployment.device.device_environment import DeviceEnvironment, durably
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import Party
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.learning.learner import MakeLearner


def take_part(
    directory: StateDirectory,
    profile: DeviceProfile,
    data: Data,
    world: DeviceEnvironment,
    talk: Callable[[Party], str],
    make: MakeLearner | None = None,
) -> str:
    """Take part in the server's run until it is over, and return why it is over. A full disk is waited for.

    talk    lets a party talk to the server, and returns the server's words at the end
    Raises  EdgeflError as DeviceSocket.run does. RunError if the disk fails.
    """
    run = talk(RunInquiry(profile.client, profile.key))
    state = durably(lambda: directory.open(run, profile.key, profile.former_key), directory.path, world)
    reason = talk(Device(state, profile, data, world, make))
    durably(lambda: directory.over(state.path, run, reason), state.path, world)
    return reason


def leave(
    directory: StateDirectory, profile: DeviceProfile, world: DeviceEnvironment, talk: Callable[[Party], str]
) -> str:
    """Tell the server that the device leaves the run, and return the server's answer. The device's files stay.

    talk    lets a party talk to the server, and returns the server's words at the end
    Raises  EdgeflError as DeviceSocket.run does. RequestError if the device has not enrolled in the run.
    """
    from edgefl.deployment.device.departure import DepartingDevice  # other devices do without it, to take less memory

    run = talk(RunInquiry(profile.client, profile.key))
    state = durably(lambda: directory.open(run, profile.key, profile.former_key), directory.path, world)
    return talk(DepartingDevice(state, profile, world))
