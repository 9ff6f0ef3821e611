"""A device's directory, read while the device uses it or after it. It takes no lock and writes nothing.

Not for taking part in a run, which is device_state.py's and device_protocol.py's.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from edgefl.deployment.device.device_state import (
    CLIENT_STATE,
    ENROLMENT,
    MODEL,
    Round,
    read_enrolment,
    read_model,
    read_round,
)
from edgefl.deployment.device.run_folders import folders, read_over, size_bytes
from edgefl.errors import RunError
from edgefl.models.graph import Model
from edgefl.protocol.wire.messages import Welcome
from edgefl.protocol.wire.model_message import unpack


class DeviceRecord(NamedTuple):
    """The run's name, what the server told the device of it, the model that it began with, and the device's last
    acknowledged round.
    """

    run: str
    welcome: Welcome
    initial: Model
    last: Round


class RunRecord(NamedTuple):
    """One of a device's runs, in few words.

    method    empty once its files are removed
    round     the last that was acknowledged, 0 if there is none
    size_bytes  of its files
    over      why it is over; None while it is not
    """

    folder: Path
    run: str
    method: str
    client: int | None
    round: int
    size_bytes: int
    over: str | None


def runs_of(path: Path) -> list[RunRecord]:
    """Every run of a device's directory that has welcomed it. Raises RunError if a file is damaged."""
    return [record for folder in folders(path) if (record := _record(folder)) is not None]


def _record(folder: Path) -> RunRecord | None:
    over, membership = read_over(folder), read_enrolment(folder / ENROLMENT)
    if over is None and membership is None:
        return None
    run = membership.run if over is None and membership is not None else "" if over is None else over.run
    method, client = ("", None) if membership is None else (membership.welcome.method, membership.welcome.client)
    trained = read_round(folder / CLIENT_STATE).round if (folder / CLIENT_STATE).exists() else 0
    return RunRecord(folder, run, method, client, trained, size_bytes(folder), None if over is None else over.reason)


def is_device(path: Path) -> bool:
    """True if the directory is one of a device that has enrolled, or the folder of one of its runs."""
    return bool(_enrolled(path))


def folder_of(path: Path) -> Path:
    """The folder of a device's only run; `path` itself if it is one. Raises RunError if there are none, or several."""
    found = _enrolled(path)
    if not found:
        raise RunError(f"{path / ENROLMENT} is missing; expected the directory of a device that has enrolled")
    if len(found) > 1:
        listed = ", ".join(f"{each} ({_name(each)})" for each in found)
        raise RunError(f"{path} has {len(found)} runs; expected the folder of one of them: {listed}")
    return found[0]


def _enrolled(path: Path) -> list[Path]:
    return [folder for folder in folders(path) if (folder / ENROLMENT).exists()]


def _name(folder: Path) -> str:
    membership = read_enrolment(folder / ENROLMENT)
    assert membership is not None
    return f"{membership.welcome.method} of run {membership.run}"


def read_device(path: Path) -> DeviceRecord:
    """What is in the directory of a device with one run, or in the folder of one of several. Raises RunError if a file
    is damaged, there are several runs, or the device has not trained yet; GraphError or CodecError if the model is
    none.
    """
    path = folder_of(path)
    membership = read_enrolment(path / ENROLMENT)
    assert membership is not None
    if not (path / CLIENT_STATE).exists():
        client = membership.welcome.client
        raise RunError(f"client {client} in {path} has not trained yet; expected a round that its server acknowledged")
    initial = unpack(read_model(path / MODEL, membership.welcome))
    return DeviceRecord(membership.run, membership.welcome, initial, read_round(path / CLIENT_STATE))
