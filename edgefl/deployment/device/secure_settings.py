"""The conditions of a device for secure aggregation, from the options of a command or the entries of a file, and the
device's part in a run under these conditions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgefl.deployment.device.device_profile import SecureProfile
from edgefl.errors import RequestError
from edgefl.protocol.wire.group_defaults import LEAST

if TYPE_CHECKING:
    from edgefl.deployment.device.device_environment import DeviceEnvironment
    from edgefl.deployment.device.device_state import DeviceState
    from edgefl.deployment.device.secure_participant import SecureParticipant

NO_OPERATOR = (
    "without {mark}operator, the server says who the other devices are. A server that lies can make up devices, and "
    "read what this device trains"
)


def secure_profile(
    identity: Path | None,
    operator: str | None,
    federation: str = "",
    least: int = LEAST,
    colluders: int = 0,
    is_insecure: bool = False,
    mark: str = "",
) -> SecureProfile | None:
    """Return what a device asks of secure aggregation, or None for runs without it.

    identity     file of the device's identity
    operator     public half of the operator's key, as a file or as its line of text
    is_insecure  whether the owner lets the server say who the other devices are
    mark         characters before the names of options in messages, such as "--"
    Raises       RequestError for settings that do not go together, and for files that cannot be used.
    """
    if identity is None and operator is None:
        return None
    both = "expected both"
    if identity is None:
        raise RequestError(f"{mark}operator {operator} without {mark}identity; {both}")
    if operator is None and not is_insecure:
        raise RequestError(
            f"{mark}identity {identity} without {mark}operator; {both}, or {mark}insecure, with which the server says "
            "who the other devices are"
        )
    if operator is None and federation:
        raise RequestError(f"{mark}federation {federation} without {mark}operator; {both}")
    if least < LEAST or colluders < 0:
        name = f"{mark}secure-" if mark else "secure_"
        raise RequestError(
            f"{name}least {least} and {name}colluders {colluders}; expected at least {LEAST}, and at least 0"
        )
    from edgefl.protocol.trust.identity_files import read_identity, read_public  # `cryptography` is optional

    public = None if operator is None else read_public(operator)
    return SecureProfile(read_identity(identity), public, federation, least, colluders)


def warning(profile: SecureProfile | None, mark: str = "") -> str:
    """Return the warning about a device that lets the server say who the other devices are, or "" for others."""
    if profile is None or profile.operator is not None:
        return ""
    return f"{mark}insecure: {NO_OPERATOR.format(mark=mark)}"


def participant(profile: SecureProfile, state: DeviceState, world: DeviceEnvironment) -> SecureParticipant:
    """Return the device's part in secure aggregation, which needs the package cryptography."""
    from edgefl.deployment.device.secure_participant import SecureParticipant

    return SecureParticipant(profile, state, world)
