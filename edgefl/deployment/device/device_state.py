"""The folder of a device in one run: what a crash may not lose. Not when something is written, which is
device_protocol.py's business, nor which folders a device has (run_folders.py).

    identity.json        what its server knows it by (identity.py); the first of its files, and never without it
    device.json          the run it has enrolled in, Welcome as bytes in hex, how many samples it declared, and counts
                         and SHA-256 of those that it trains on
    model.part           the initial model as far as it has come; a download goes on at its length
    model.bin            all of it
    pending.safetensors  a round whose reply has not been acknowledged: the reply, and what the device keeps then
    local.safetensors    the last round that was: what the device keeps
    lock                 held by the process that uses it, unless that holds the lock of all (run_folders.py)

Every file but model.part is written beside its place, synced and renamed; a verdict renames or removes pending. So a
process killed at any point finds the files of before or of after, and each round's training is applied once.
What a device keeps is the method's choice: its model, private values, sets of arrays, or nothing.

All but model.part have a digest: model.bin in Welcome, the others in themselves. Each is checked whenever it is read,
and all are read when the directory is opened. What is damaged, or gone while others show that it was there, is an error
that names it; only the initial model is sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy

from edgefl.deployment.device.digest_record import SEAL, digest_of, read_sealed, seal
from edgefl.deployment.device.identity import Identity, read_identity, write_identity
from edgefl.errors import RunError
from edgefl.experiment.data_record import DataRecord
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.messages import Trained, Welcome
from edgefl.protocol.wire.model_message import digest
from edgefl.system.durable_files import load_arrays, lock, private_directory, sync, write_atomically

IDENTITY, ENROLMENT, MODEL, CLIENT_STATE = "identity.json", "device.json", "model.bin", "local.safetensors"
PART, PENDING = "model.part", "pending.safetensors"
FILES = (CLIENT_STATE, PENDING, MODEL, PART, ENROLMENT, IDENTITY)  # each needs those after it
REPLY = "reply"
AFTER = "after"
CURE = "restore the whole directory, or begin with an empty one, which the server has to accept (serve --accept-loss)"


class Membership(NamedTuple):
    """The run that a device belongs to, how many samples it declared there, and what it trains on; None if that was
    not kept.
    """

    run: str
    welcome: Welcome
    examples: tuple[int, ...] | None = None
    trains_on: DataRecord | None = None


class DeviceState:
    """The folder, opened by one process. Writes raise OSError if the disk refuses; the same call may be repeated.

    run        the id of the run that it is of; empty: whichever the device enrols in
    identity   None before `begin` of the first process
    enrolment  None before the first Welcome
    round      the last round that was acknowledged, 0 if there is none
    pending    the round that was not, 0 if there is none
    Raises     RunError if another process uses the folder, or a file is damaged, or gone without the others, or it is
               a copy of another run's.
    """

    def __init__(self, path: Path, run: str = "", of: str = "", held: IO[bytes] | None = None) -> None:
        """`of`: the name that run_folders.py gives the folder, kept in its identity; `held`: the lock that covers
        it.
        """
        private_directory(path)
        self._lock = lock(path / "lock") if held is None else None
        self._identity, self._enrolment = path / IDENTITY, path / ENROLMENT
        self._model, self._part = path / MODEL, path / PART
        self._client_state, self._pending = path / CLIENT_STATE, path / PENDING
        self.path, self.run, self._of = path, run, of
        try:
            self._check_presence()
            self.identity, self.enrolment = read_identity(self._identity), read_enrolment(self._enrolment)
            self.round, self.pending = _round_of(self._client_state), _round_of(self._pending)
            if self.pending and self.pending <= self.round:
                raise RunError(
                    f"{self._pending} is of round {self.pending}; expected one after {self.round}, that of"
                    f" {self._client_state.name}: it is an older copy"
                )
            self._check_directory()
        except RunError as error:
            self.close()
            raise RunError(f"{error}; {CURE}") from None

    def _check_presence(self) -> None:
        """Raises RunError for a file that is gone: each of these is written after all before it."""
        later = [self._identity, self._enrolment, self._part, self._model, self._pending, self._client_state]
        for number, file in enumerate(later[:2]):
            if not file.exists() and (found := [other for other in later[number + 1 :] if other.exists()]):
                raise RunError(f"{file} is gone, though {found[0].name} is there; expected both")

    def _check_directory(self) -> None:
        """Raises RunError for the files of another run."""
        of = "" if self.identity is None else self.identity.of
        if self._of and of not in ("", self._of):
            raise RunError(f"{self._identity} is of the folder {of}; expected {self._of}: it was copied or moved")
        if self.run and self.enrolment is not None and self.enrolment.run != self.run:
            raise RunError(f"{self._enrolment} is of run {self.enrolment.run}; expected {self.run}")

    def close(self) -> None:
        """Lets another process have the folder, unless the lock is of all."""
        if self._lock is not None:
            self._lock.close()

    def begin(self, random_bytes: Callable[[int], bytes]) -> None:
        """A process begins to use the directory, before it says anything to a server. `random_bytes`: that many random
        bytes.
        """
        found = Identity.drawn(random_bytes) if self.identity is None else self.identity.next(random_bytes)
        found = found.placed(self._of)
        if found != self.identity:
            write_identity(self._identity, found)
            self.identity = found

    def heard(self) -> None:
        """The server knows of this process."""
        assert self.identity is not None
        if not self.identity.is_heard:
            write_identity(self._identity, self.identity.heard())
            self.identity = self.identity.heard()

    def enrol(self, enrolment: Membership) -> None:
        """Remembers the run, or what has changed of the membership."""
        record: dict[str, Any] = {"run": enrolment.run, "welcome": messages.encode(enrolment.welcome).hex()}
        if enrolment.examples is not None:
            record["examples"] = list(enrolment.examples)
        if enrolment.trains_on is not None:
            record["trains_on"] = enrolment.trains_on.to_json()
        write_atomically(self._enrolment, json.dumps(seal(record)).encode())
        self.enrolment = enrolment

    # The initial model.

    def has_model(self) -> bool:
        """Whether all of the initial model is there."""
        return self._model.exists()

    def model(self) -> bytes:
        """The initial model, as wire.model.pack wrote it. Raises RunError if it cannot be read, or is damaged."""
        assert self.enrolment is not None
        return read_model(self._model, self.enrolment.welcome)

    def drop_damaged_model(self) -> Path | None:
        """Removes the initial model if it is damaged, so that it is sent again; the file, or None if it is sound."""
        if not self.has_model():
            return None
        try:
            self.model()
        except RunError:
            self._model.unlink()
            sync(self.path)
            return self._model
        return None

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

    def personal(self) -> StoredClientState | None:
        """The state that the device keeps after its last acknowledged round; None before the first round.

        Raises  RunError if the file is damaged, or not of that round any more.
        """
        if not self.round:
            return None
        found = read_round(self._client_state)
        if found.round != self.round:
            raise RunError(
                f"{self._client_state} is of round {found.round}; expected {self.round}, as this process left it"
            )
        return found.kept

    def reply(self) -> Trained:
        """The reply that has not been acknowledged. There must be one."""
        return read_round(self._pending).reply

    def keep(self, reply: Trained, kept: StoredClientState) -> None:
        """A trained round: durable before its reply may be sent."""
        arrays = {**kept.flat(), REPLY: np.frombuffer(messages.encode(reply), np.uint8)}
        text = json.dumps({"round": reply.round, "private": kept.private})
        after = json.dumps({AFTER: text, SEAL: digest_of(arrays, text)})
        write_atomically(
            self._pending, safetensors.numpy.save(arrays, {AFTER: after})
        )  # one key: their order is not kept
        self.pending = reply.round

    def accept(self) -> None:
        """The pending round is acknowledged: the device is as after it."""
        if self._pending.exists():
            self._pending.replace(self._client_state)
        sync(self.path)
        self.round, self.pending = self.pending, 0

    def reject(self) -> None:
        """The pending round is refused: the device is as before it."""
        self._pending.unlink(missing_ok=True)
        sync(self.path)
        self.pending = 0


def read_model(file: Path, welcome: Welcome) -> bytes:
    """The model that a run began with. Raises RunError if it cannot be read, or is damaged."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error})") from None
    if digest(data) != welcome.model_digest:
        raise RunError(f"{file} is damaged; expected the model of Welcome; start the device again")
    return data


class Round(NamedTuple):
    """The content of a round's file."""

    round: int
    kept: StoredClientState
    reply: Trained


def read_round(file: Path) -> Round:
    """A round as `keep` wrote it. Raises RunError if it is missing or damaged."""
    arrays, metadata = load_arrays(file)
    try:
        sealed = json.loads(metadata[AFTER])
        if sealed[SEAL] != digest_of(arrays, sealed[AFTER]):
            raise ValueError("another SHA-256 than it states")
        reply = messages.decode(messages.NUMBERS[Trained], arrays.pop(REPLY).tobytes())
        after = json.loads(sealed[AFTER])
        round, kept = int(after["round"]), StoredClientState.of(arrays, dict(after["private"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{file} is damaged ({error!r}); expected a round of a device") from None
    assert isinstance(reply, Trained)
    return Round(round, kept, reply)


def _round_of(file: Path) -> int:
    return read_round(file).round if file.exists() else 0


def read_enrolment(file: Path) -> Membership | None:
    """The run of a device; None if there is no such file. Raises RunError if it is damaged."""
    record = read_sealed(file)
    if record is None:
        return None
    try:
        welcome = messages.decode(messages.NUMBERS[Welcome], bytes.fromhex(record["welcome"]))
        assert isinstance(welcome, Welcome)
        examples, data = record.get("examples"), record.get("trains_on")
        declared = None if examples is None else tuple(map(int, examples))
        return Membership(str(record["run"]), welcome, declared, None if data is None else DataRecord.read(data))
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is not the record of an enrolment ({error!r})") from None
