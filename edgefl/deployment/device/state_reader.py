"""A reader of a device's directory, while the device uses it or afterwards. It takes no lock and writes nothing.

device_state.py and device_protocol.py are for taking part in a run.
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


class DeviceRecord(NamedTuple):
    """The record of a device in one run: the id of the run, what the server told the device, the initial model, and the
    device's last acknowledged round.
    """

    run: str
    welcome: Welcome
    initial: Model
    last: Round


class RunRecord(NamedTuple):
    """One of a device's runs, in few words.

    method    empty once the files of the run are removed
    round     last round that was acknowledged, 0 before the first
    size_bytes  size of the files
    over      why the run is over, or None while it goes on
    """

    folder: Path
    run: str
    method: str
    client: int | None
    round: int
    size_bytes: int
    over: str | None


def runs_of(path: Path) -> list[RunRecord]:
    """Return every run of a device's directory that has welcomed the device. Raises RunError if a file is damaged."""
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
    """Return whether the directory is that of a device that has enrolled, or the folder of one of its runs."""
    return bool(_enrolled(path))


def folder_of(path: Path) -> Path:
    """Return the folder of a device's only run, or `path` itself if it is such a folder. Raises RunError for several
    runs, or if there is no run.
    """
    found = _enrolled(path)
    if not found:
        raise RunError(f"{path / ENROLMENT} is missing; expected the directory of an enrolled device")
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
    """Read the directory of a device with one run, or the folder of one of its runs.

    Raises  RunError if a file is damaged, there are several runs, or the device has not trained yet. GraphError or
            CodecError if the model is not valid.
    """
    path = folder_of(path)
    membership = read_enrolment(path / ENROLMENT)
    assert membership is not None
    if not (path / CLIENT_STATE).exists():
        client = membership.welcome.client
        raise RunError(f"client {client} in {path} has not trained yet; expected a round that its server acknowledged")
    initial = read_model(path / MODEL, membership.welcome)
    return DeviceRecord(membership.run, membership.welcome, initial, read_round(path / CLIENT_STATE))
