"""The tag `power` of a device in the service of an agent: "mains" or "battery", as Linux says."""

from __future__ import annotations

from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.protocol.wire.attendance_messages import MOST_TAGS

POWER = "power"


def with_power(profile: DeviceProfile, is_on_mains: bool | None) -> DeviceProfile:
    """Return the profile with the tag, unless the owner has set it or nobody knows the power.

    A device that has neither tags nor `sleep` gets no tag, because it sends no notice, which earlier servers refuse.
    """
    speaks = bool(profile.tags) or profile.sleeps
    if not speaks or is_on_mains is None or POWER in profile.tags or len(profile.tags) >= MOST_TAGS:
        return profile
    return profile._replace(tags={**profile.tags, POWER: "mains" if is_on_mains else "battery"})
