"""The directory of a device that takes part in several runs, of one server after another.

    DIR/lock              held by the process that uses the directory, so that a second process is refused
    DIR/runs/NAME/        the device in one run: the files of device_state.py, with its secret
    DIR/base/            frozen parts of initial models, for all runs (base_store.py)
    DIR/runs/NAME/over.json  record of a run that is over, and whether its files have been removed since

NAME is a digest of the run's id and of the key that its server has proven, if there is a key. So a server with another
key that uses the name of a run finds an empty folder. A server without keys has to prove the secret in the folder
before anything in the folder is used. No text of a server becomes part of a path.

Earlier versions kept their only run in DIR itself. It goes on there, with the first server that has that run. The files
of a run's folder are in device_state.py, and reading them during a run is in state_reader.py.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from edgefl.deployment.device.device_state import ENROLMENT, FILES, IDENTITY, DeviceState, read_enrolment
from edgefl.deployment.device.digest_record import read_sealed, seal
from edgefl.deployment.device.identity import read_identity, write_identity
from edgefl.errors import RunError
from edgefl.system.durable_files import lock, private_directory, sync, temporary, write_atomically

RUNS, OVER = "runs", "over.json"
DOMAIN = b"edgefl run folder 1"
MOST_OPEN = 16  # runs in a directory that are not over, so that a server cannot fill the disk
MOST_BEGUN = 16  # folders of runs that never welcomed the device. Older folders of this kind are removed
MOST_REMEMBERED = 100  # runs of which only the record that they are over is kept


def name_of(run: str, key: bytes | None) -> str:
    """Return the folder name, 32 hexadecimal digits, of a run whose server has proven this key."""
    server = b"" if key is None else hmac.digest(key, DOMAIN, hashlib.sha256)
    fields = (DOMAIN, run.encode(), server)
    return hashlib.sha256(b"".join(len(field).to_bytes(4, "little") + field for field in fields)).hexdigest()[:32]


class FinishedRun(NamedTuple):
    """The record of a run that is over: its id, the reason, and whether the device's files of the run are gone."""

    run: str
    reason: str
    is_removed: bool


class PrunedRun(NamedTuple):
    """The removal that `prune` has done: a run's folder, and the number of bytes that lay there."""

    over: FinishedRun
    folder: Path
    size_bytes: int


def read_over(folder: Path) -> FinishedRun | None:
    """Read the record that a run is over, or return None while it goes on. Raises RunError if the record is damaged."""
    record = read_sealed(folder / OVER)
    if record is None:
        return None
    try:
        return FinishedRun(str(record["run"]), str(record["reason"]), bool(record["is_removed"]))
    except KeyError as error:
        raise RunError(f"{folder / OVER} lacks {error}; expected the record that a device wrote") from None


def folders(path: Path) -> Iterator[Path]:
    """Yield the folders of all runs in a device's directory, in the order of their names."""
    if (path / IDENTITY).exists() or (path / ENROLMENT).exists() or (path / OVER).exists():
        yield path
    if (path / RUNS).is_dir():
        yield from sorted(folder for folder in (path / RUNS).iterdir() if folder.is_dir())


def size_bytes(folder: Path) -> int:
    """Return the number of bytes of a run's files."""
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def is_in_use(path: Path, locks: Path = Path("/proc/locks")) -> bool:
    """Return whether a process has the directory, by Linux's list of locks. Taking the lock could hinder a process."""
    try:
        inode, held = (path / "lock").stat().st_ino, locks.read_text()
    except OSError:
        return False
    return any(line.split()[5].endswith(f":{inode}") for line in held.splitlines() if " FLOCK " in line)


class StateDirectory:
    """The directory, opened by one process.

    Raises  RunError if another process uses it.
    """

    def __init__(self, path: Path) -> None:
        private_directory(path)
        self.path = path
        self._lock = lock(path / "lock")

    def close(self) -> None:
        """Let another process have the directory."""
        self._lock.close()

    def open(self, run: str, key: bytes | None, former: bytes | None = None) -> DeviceState:
        """Open the folder of that run, or make a new one. `key` is the key that its server has proven, or None.

        former  key that the device had before. Its folder of the run goes on with the present key
        Raises  RunError if the folder is damaged, if the run is over and its files are removed, or if there are too
                many runs.
        """
        name = name_of(run, key)
        if former is not None and key is not None:
            self._take_over(name_of(run, former), name)
        if self._is_of_before(run, name):
            return DeviceState(self.path, run, name, self._lock)
        folder = self.path / RUNS / name
        over = read_over(folder)
        if over is not None and over.is_removed:
            raise RunError(f"run {run} is over, and the files in {folder} were removed since; expected another run")
        if not folder.exists():
            self._make_room()
        private_directory(self.path / RUNS)
        private_directory(folder)
        return DeviceState(folder, run, name, self._lock, self.path)

    def _take_over(self, former: str, name: str) -> None:
        """Give the folder of a run under the former key the name that it has under the present key.

        A crash leaves a folder of the new name whose identity has the former name, which is written again then. A
        folder of the new name in which the device has not enrolled holds nothing, and makes room.
        """
        old, new = self.path / RUNS / former, self.path / RUNS / name
        if (old / ENROLMENT).exists() and not (new / ENROLMENT).exists():
            if new.exists():
                _remove_files(new)
                _remove_folder(new, self.path)
            old.rename(new)
            sync(self.path / RUNS)
        identity = read_identity(new / IDENTITY)
        if identity is not None and identity.of == former:
            write_identity(new / IDENTITY, replace(identity, of=name))

    def over(self, folder: Path, run: str, reason: str) -> None:
        """Record that the run of that folder is over, as its server says."""
        _write_over(folder, FinishedRun(run, reason, False))

    def prune(self, keep: int) -> list[PrunedRun]:
        """Remove the files of runs that are over, except the last `keep` runs. A record that they are over stays.

        A removal that a crash interrupted is completed.
        """
        ended = sorted(self._over(), key=lambda each: (each[0] / OVER).stat().st_mtime_ns, reverse=True)
        kept = [each for each in ended if not each[1].is_removed]
        removed = [_clear(folder, over) for folder, over in kept[keep:]]
        for folder, over in ended:
            if over.is_removed:
                _clear(folder, over)
        for folder, _ in [each for each in ended if each[1].is_removed][MOST_REMEMBERED:]:
            (folder / OVER).unlink()
            _remove_folder(folder, self.path)
        return removed

    def _over(self) -> Iterator[tuple[Path, FinishedRun]]:
        for folder in folders(self.path):
            over = read_over(folder)
            if over is not None:
                yield folder, over

    def _is_of_before(self, run: str, name: str) -> bool:
        """Return whether the directory itself is the folder of that run, as in earlier versions."""
        identity = read_identity(self.path / IDENTITY)
        enrolment = read_enrolment(self.path / ENROLMENT)
        if identity is None:
            if enrolment is not None:
                raise RunError(f"{self.path / IDENTITY} is missing, although {ENROLMENT} is there; expected both files")
            return False
        if identity.of:
            return identity.of == name
        return enrolment is None or enrolment.run == run

    def _make_room(self) -> None:
        """Make room before a folder is made. Raises RunError if there are too many runs that are not over."""
        begun: list[Path] = []
        going_on: list[Path] = []
        for folder in folders(self.path):
            if not (folder / OVER).exists():
                (going_on if (folder / ENROLMENT).exists() else begun).append(folder)
        if len(going_on) >= MOST_OPEN:
            raise RunError(
                f"{self.path} has {len(going_on)} unfinished runs; expected fewer than {MOST_OPEN}: remove the"
                f" folders of runs that will not continue, such as {going_on[0]}"
            )
        begun.sort(key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
        for folder in begun[MOST_BEGUN - 1 :]:
            _remove_files(folder)
            _remove_folder(folder, self.path)


def _write_over(folder: Path, over: FinishedRun) -> None:
    write_atomically(folder / OVER, json.dumps(seal(over._asdict())).encode())


def _clear(folder: Path, over: FinishedRun) -> PrunedRun:
    """Record that the files are gone, then remove them, so that a crash does not leave some of the files in use."""
    found = PrunedRun(over, folder, size_bytes(folder))
    if not over.is_removed:
        _write_over(folder, over._replace(is_removed=True))
    _remove_files(folder)
    return found


def _remove_files(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
        temporary(folder / name).unlink(missing_ok=True)


def _remove_folder(folder: Path, directory: Path) -> None:
    if folder != directory:
        temporary(folder / OVER).unlink(missing_ok=True)
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()
