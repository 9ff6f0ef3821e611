"""The directory of a device: what a crash may not lose. Not when something is written, which is protocol.py's business.

    DIR/lock                 held by the process that uses it, so that a second one is refused
    DIR/token                what a server that chooses the device's id knows it by until device.json is there
    DIR/device.json          the run it has enrolled in, and Welcome as bytes in hex
    DIR/model.part           the initial model as far as it has come; a download goes on at its length
    DIR/model.bin            all of it, digest checked
    DIR/pending.safetensors  a round whose reply has not been acknowledged: the reply, and what the device keeps then
    DIR/local.safetensors    the last round that was: what the device keeps

Every file but model.part is written beside its place, synced and renamed; a verdict renames or removes pending. So a
process killed at any point finds the files of before or of after, and each round's training is applied once.
What a device keeps is the method's choice: its model, private values, sets of arrays, or nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy

from edgefl.durable import load_arrays, lock, sync, write_atomically
from edgefl.errors import RunError
from edgefl.rounds.state_file import Kept
from edgefl.wire import messages
from edgefl.wire.messages import Trained, Welcome
from edgefl.wire.model import digest

REPLY = "reply"
AFTER = "after"


class Membership(NamedTuple):
    """The run that a device belongs to."""

    run: str
    welcome: Welcome


class DeviceState:
    """The directory, opened by one process. Writes raise OSError if the disk refuses; the same call may be repeated.

    enrolment  None before the first Welcome
    round      the last round that was acknowledged, 0 if there is none
    pending    the round that was not, 0 if there is none
    Raises     RunError if another process uses the directory, or a file is corrupt.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._lock = lock(path / "lock")
        self._enrolment, self._model = path / "device.json", path / "model.bin"
        self._part, self._token = path / "model.part", path / "token"
        self._local, self._pending = path / "local.safetensors", path / "pending.safetensors"
        self.path = path
        self.enrolment = _read_enrolment(self._enrolment)
        self.round, self.pending = _round_of(self._local), _round_of(self._pending)

    def close(self) -> None:
        """Lets another process have the directory."""
        self._lock.close()

    def token(self, new: bytes) -> bytes:
        """What the device is known by before it knows its id; `new`, 32 random bytes, if it has none yet."""
        if not self._token.exists():
            write_atomically(self._token, new)
        return self._token.read_bytes()

    def enrol(self, enrolment: Membership) -> None:
        """Remembers the run."""
        record = {"run": enrolment.run, "welcome": messages.encode(enrolment.welcome).hex()}
        write_atomically(self._enrolment, json.dumps(record).encode())
        self.enrolment = enrolment

    # The initial model.

    def has_model(self) -> bool:
        """Whether all of the initial model is there."""
        return self._model.exists()

    def model(self) -> bytes:
        """The initial model, as wire.model.pack wrote it. Raises RunError if it cannot be read."""
        try:
            return self._model.read_bytes()
        except OSError as error:
            raise RunError(f"{self._model} cannot be read ({error})") from None

    def received(self) -> int:
        """Bytes of the model that need not be sent again."""
        return self._part.stat().st_size if self._part.exists() else 0

    def add(self, offset: int, data: bytes) -> None:
        """Some bytes of the model. What lay from `offset` on is replaced, so that a write that failed can be repeated.

        Not synced: what a loss of power spoils is found by the digest.
        """
        with open(self._part, "r+b" if offset else "wb", buffering=0) as file:
            file.truncate(offset)
            file.seek(offset)
            while data:
                data = data[file.write(data) :]

    def complete(self, expected: bytes) -> bool:
        """Makes what was received the initial model if it has this digest; otherwise removes it and answers False."""
        if self._part.exists():
            if digest(self._part.read_bytes()) != expected:
                self._part.unlink()
                return False
            sync(self._part)
            self._part.replace(self._model)
        sync(self.path)
        return True

    # Rounds.

    def personal(self) -> Kept | None:
        """What the device keeps after its last acknowledged round; None before the first."""
        return _read(self._local).kept if self.round else None

    def reply(self) -> Trained:
        """The reply that has not been acknowledged. There must be one."""
        return _read(self._pending).reply

    def keep(self, reply: Trained, kept: Kept) -> None:
        """A trained round: durable before its reply may be sent."""
        arrays = {**kept.flat(), REPLY: np.frombuffer(messages.encode(reply), np.uint8)}
        rest = {AFTER: json.dumps({"round": reply.round, "private": kept.private})}  # one key: their order is not kept
        write_atomically(self._pending, safetensors.numpy.save(arrays, rest))
        self.pending = reply.round

    def accept(self) -> None:
        """The pending round is acknowledged: the device is as after it."""
        if self._pending.exists():
            self._pending.replace(self._local)
        sync(self.path)
        self.round, self.pending = self.pending, 0

    def reject(self) -> None:
        """The pending round is refused: the device is as before it."""
        self._pending.unlink(missing_ok=True)
        sync(self.path)
        self.pending = 0


class _Round(NamedTuple):
    """What a file of a round holds."""

    round: int
    kept: Kept
    reply: Trained


def _read(file: Path) -> _Round:
    arrays, metadata = load_arrays(file)
    try:
        reply = messages.decode(messages.NUMBERS[Trained], arrays.pop(REPLY).tobytes())
        after = json.loads(metadata[AFTER])
        round, kept = int(after["round"]), Kept.of(arrays, dict(after["private"]))
    except (KeyError, TypeError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{file} does not hold a round of a device ({error!r})") from None
    assert isinstance(reply, Trained)
    return _Round(round, kept, reply)


def _round_of(file: Path) -> int:
    return _read(file).round if file.exists() else 0


def _read_enrolment(file: Path) -> Membership | None:
    try:
        record = json.loads(file.read_bytes())
        welcome = messages.decode(messages.NUMBERS[Welcome], bytes.fromhex(record["welcome"]))
        assert isinstance(welcome, Welcome)
        return Membership(str(record["run"]), welcome)
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is not the record of an enrolment ({error!r})") from None
