"""A device's directory, read while the device uses it or after it. It takes no lock and writes nothing.

Not for taking part in a run, which is state.py's and protocol.py's.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from edgefl.device.state import ENROLMENT, LOCAL, MODEL, Round, read_enrolment, read_model, read_round
from edgefl.errors import RunError
from edgefl.graph import Model
from edgefl.wire.messages import Welcome
from edgefl.wire.model import unpack


class DeviceRecord(NamedTuple):
    """The run's name, what the server told the device of it, the model that it began with, and the device's last
    acknowledged round.
    """

    run: str
    welcome: Welcome
    initial: Model
    last: Round


def is_device(path: Path) -> bool:
    """True if the directory is one of a device that has enrolled."""
    return (path / ENROLMENT).exists()


def read_device(path: Path) -> DeviceRecord:
    """What is in the directory. Raises RunError if a file is damaged, or the device has not trained yet; GraphError or
    CodecError if the model is none.
    """
    membership = read_enrolment(path / ENROLMENT)
    if membership is None:
        raise RunError(f"{path / ENROLMENT} is missing; expected the directory of a device that has enrolled")
    if not (path / LOCAL).exists():
        client = membership.welcome.client
        raise RunError(f"client {client} in {path} has not trained yet; expected a round that its server acknowledged")
    initial = unpack(read_model(path / MODEL, membership.welcome))
    return DeviceRecord(membership.run, membership.welcome, initial, read_round(path / LOCAL))
