"""The folder of a device in one run, with all that a crash may not lose. device_protocol.py decides when files are
written, and run_folders.py which folders a device has.

    identity.json        identity of the device for its server (identity.py). No other file is there without it
    device.json          the run that it has enrolled in, Welcome as bytes in hex, the number of samples that it
                         declared, and counts and SHA-256 of the samples that it trains on
    model.part           the initial model as far as it has come. A download goes on at the length of this file
    model.bin            the whole initial model
    pending.safetensors  a round whose reply was not acknowledged: the reply, and what the device keeps after it
    local.safetensors    the last acknowledged round: what the device keeps
    group.bin            with secure aggregation, the state of the device in the group of its last round, with secrets
    lock                 held by the process that uses it, unless that process locks the directory (run_folders.py)

Every file but model.part is written under another name, synced and renamed. A verdict renames or removes pending. So
after a process is killed at any point, the files are either in the old state or in the new state, and each round's
training is applied once. The method chooses what a device keeps: its model, private values, sets of arrays, or nothing.

All files but model.part have a digest: the digest of model.bin is in Welcome, and other files have their own. Each file
is checked whenever it is read, and all are read when the directory is opened. A file that is damaged, or gone although
later files are there, is an error that names it. Only the initial model is sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from edgefl.deployment.device.base_store import FOLDER, BaseStore, StoredPart
from edgefl.deployment.device.digest_record import digested, read_digested, read_sealed, seal
from edgefl.deployment.device.identity import Identity, read_identity, write_identity
from edgefl.deployment.device.kept_rosters import KeptRosters
from edgefl.deployment.device.round_file import Round, StoredSummand, read_round, round_content
from edgefl.errors import EdgeflError, RunError
from edgefl.experiment.data_record import DataRecord
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.models.graph import Model
from edgefl.models.graph.json import Limits
from edgefl.protocol.wire import messages, model_message
from edgefl.protocol.wire.messages import Trained, Welcome
from edgefl.protocol.wire.model_message import Wanted, everything, nothing
from edgefl.protocol.wire.model_parts import frozen_bytes
from edgefl.system.durable_files import lock, pieces_of, private_directory, sha256, sync, write_atomically

IDENTITY, ENROLMENT, MODEL, CLIENT_STATE = "identity.json", "device.json", "model.bin", "local.safetensors"
PART, PENDING, GROUP = "model.part", "pending.safetensors", "group.bin"
FILES = (
    GROUP,
    CLIENT_STATE,
    PENDING,
    MODEL,
    PART,
    ENROLMENT,
    IDENTITY,
)  # each file needs the files after it in this list
CURE = "restore the whole directory, or begin with an empty one, which the server has to accept (serve --accept-loss)"


class Membership(NamedTuple):
    """The run that a device belongs to.

    examples   numbers of samples that it declared there, or None if they were not kept
    trains_on  record of the samples that it trains on, or None if it was not kept
    """

    run: str
    welcome: Welcome
    examples: tuple[int, ...] | None = None
    trains_on: DataRecord | None = None


class DeviceState:
    """The folder, opened by one process. A write raises OSError if the disk refuses, and the call may be repeated.

    run        id of the run of the folder. Empty: the run in which the device enrols
    identity   None before the first process has called `begin`
    enrolment  None before the first Welcome
    round      last round that was acknowledged, 0 before the first
    pending    round whose reply was not acknowledged, 0 if every reply was
    base       store of frozen parts, which all runs of the device share
    Raises     RunError if another process uses the folder, a file is damaged or missing, or the folder is a copy of
               another run's folder.
    """

    def __init__(
        self, path: Path, run: str = "", of: str = "", held: IO[bytes] | None = None, shared: Path | None = None
    ) -> None:
        """Open the folder. `of` is its name in run_folders.py, kept in its identity. `held` is the lock that has it.
        `shared` is the device's directory, if the folder lies in it.
        """
        private_directory(path)
        self.base = BaseStore((shared or path) / FOLDER)
        self._lock = lock(path / "lock") if held is None else None
        sync(path)  # a process that was killed may have left names that are not on the disk yet
        self._identity, self._enrolment = path / IDENTITY, path / ENROLMENT
        self._model, self._part = path / MODEL, path / PART
        self._client_state, self._pending = path / CLIENT_STATE, path / PENDING
        self._group, self.rosters = path / GROUP, KeptRosters(shared or path)
        self.path, self.run, self._of = path, run, of
        self._frozen_bytes: int | None = None  # known once the model has been looked at
        try:
            self._check_presence()
            self.identity, self.enrolment = read_identity(self._identity), read_enrolment(self._enrolment)
            self.round, self.pending = _round_of(self._client_state), _round_of(self._pending)
            if self.pending and self.pending <= self.round:
                raise RunError(
                    f"{self._pending} is of round {self.pending}; expected a round after {self.round}, the"
                    f" round of {self._client_state.name}: the file is an older copy"
                )
            self._check_directory()
        except RunError as error:
            self.close()
            raise RunError(f"{error}; {CURE}") from None

    def _check_presence(self) -> None:
        """Raise RunError for a file that is gone although a later file is there. The list has the order of writing."""
        later = [self._identity, self._enrolment, self._part, self._model, self._pending, self._client_state]
        for number, file in enumerate(later[:2]):
            if not file.exists() and (found := [other for other in later[number + 1 :] if other.exists()]):
                raise RunError(f"{file} is missing, although {found[0].name} is there; expected both files")

    def _check_directory(self) -> None:
        """Raise RunError for the files of another run."""
        of = "" if self.identity is None else self.identity.of
        if self._of and of not in ("", self._of):
            raise RunError(
                f"{self._identity} belongs to the folder {of}; expected folder {self._of}: the file was copied or moved"
            )
        if self.run and self.enrolment is not None and self.enrolment.run != self.run:
            raise RunError(f"{self._enrolment} belongs to run {self.enrolment.run}; expected run {self.run}")

    def close(self) -> None:
        """Let another process have the folder, unless the lock covers the whole directory."""
        if self._lock is not None:
            self._lock.close()

    def begin(self, random_bytes: Callable[[int], bytes]) -> None:
        """Begin to use the directory in this process, before it says anything to a server. `random_bytes` returns the
        number of random bytes that its argument says.
        """
        found = Identity.drawn(random_bytes) if self.identity is None else self.identity.next(random_bytes)
        found = found.placed(self._of)
        if found != self.identity:
            write_identity(self._identity, found)
            self.identity = found

    def heard(self) -> None:
        """Note that the server knows of this process."""
        assert self.identity is not None
        if not self.identity.is_heard:
            write_identity(self._identity, self.identity.heard())
            self.identity = self.identity.heard()

    def enrol(self, enrolment: Membership) -> None:
        """Remember the run, or what has changed of the membership."""
        record: dict[str, Any] = {"run": enrolment.run, "welcome": messages.encode(enrolment.welcome).hex()}
        if enrolment.examples is not None:
            record["examples"] = list(enrolment.examples)
        if enrolment.trains_on is not None:
            record["trains_on"] = enrolment.trains_on.to_json()
        write_atomically(self._enrolment, json.dumps(seal(record)).encode())
        self.enrolment = enrolment

    # The initial model.

    def has_model(self) -> bool:
        """Return whether all of the initial model is there."""
        return self._model.exists()

    def model(self, limits: Limits | None = None, wanted: Wanted = everything) -> Model:
        """Return the initial model, or the wanted parameters of it. See read_model."""
        assert self.enrolment is not None
        return read_model(self._model, self.enrolment.welcome, limits, wanted)

    def frozen_bytes(self, limits: Limits | None = None) -> int:
        """Return the bytes of the initial model's frozen parameters, 0 if there is no valid model within `limits`."""
        if self._frozen_bytes is None:
            try:
                with open(self._model, "rb") as opened:
                    graph = model_message.read(opened, self._model.stat().st_size, limits, nothing).graph
                self._frozen_bytes = frozen_bytes(graph)
            except (OSError, EdgeflError):
                return 0
        return self._frozen_bytes

    def part(self, offset: int, size: int) -> StoredPart:
        """Return the place of some bytes of the packed initial model."""
        return StoredPart(self._model, offset, size)

    def damaged_model(self) -> Path | None:
        """Return the file of the initial model if it is there and damaged, or None."""
        if self.enrolment is None or not self.has_model():
            return None
        try:
            check_model(self._model, self.enrolment.welcome)
        except RunError:
            return self._model
        return None

    def drop_model(self) -> None:
        """Remove the initial model, so that it is sent again."""
        self._model.unlink(missing_ok=True)
        self._frozen_bytes = None
        sync(self.path)

    def received(self) -> int:
        """Return the number of bytes of the model that need not be sent again."""
        return self._part.stat().st_size if self._part.exists() else 0

    def add(self, offset: int, data: bytes) -> None:
        """Write bytes of the model from `offset` on. Later bytes are dropped, so that a failed write can be repeated.

        The file is not synced, because the digest shows what a loss of power has spoilt.
        """
        with open(self._part, "r+b" if offset else "wb", buffering=0) as file:
            file.truncate(offset)
            file.seek(offset)
            while data:
                data = data[file.write(data) :]

    def complete(self, expected: bytes) -> bool:
        """Make the download the initial model if it has this digest. Otherwise remove it and return False."""
        if self._part.exists():
            if sha256(pieces_of(self._part)) != expected.hex():
                self._part.unlink()
                return False
            sync(self._part)
            self._part.replace(self._model)
        sync(self.path)
        return True

    # Rounds.

    def personal(self) -> StoredClientState | None:
        """Return the state that the device keeps after its last acknowledged round, or None before the first round.

        Raises  RunError if the file is damaged, or no longer of that round.
        """
        if not self.round:
            return None
        found = read_round(self._client_state)
        if found.round != self.round:
            raise RunError(
                f"{self._client_state} is of round {found.round}; expected round {self.round}, as this process wrote it"
            )
        return found.kept

    def summand(self) -> StoredSummand:
        """Return the device's part of its group's sum, in the round that was not acknowledged. Raises RunError if the
        round has no such part.
        """
        found = read_round(self._pending).summand
        if found is None:
            raise RunError(f"{self._pending} was trained without secure aggregation; expected a round with it")
        return found

    def reply(self) -> Trained:
        """Return the reply that was not acknowledged. There must be such a reply."""
        return read_round(self._pending).reply

    def keep(self, reply: Trained, kept: StoredClientState, summand: StoredSummand | None = None) -> None:
        """Make a trained round durable, before its reply may be sent. With secure aggregation `summand` is its part of
        the group's sum.
        """
        write_atomically(self._pending, round_content(Round(reply.round, kept, reply, summand)))
        self.pending = reply.round

    def accept(self) -> None:
        """Accept the pending round, which is acknowledged. The device is then in the state after it."""
        if self._pending.exists():
            self._pending.replace(self._client_state)
        sync(self.path)
        self.round, self.pending = self.pending, 0

    def reject(self) -> None:
        """Reject the pending round, which is refused. The device is then in the state before it."""
        self._pending.unlink(missing_ok=True)
        sync(self.path)
        self.pending = 0

    # Secure aggregation.

    def group(self) -> bytes | None:
        """Return the device's state in the group of its last round, or None. Raises RunError if the file is damaged."""
        return read_digested(self._group)

    def keep_group(self, data: bytes) -> None:
        """Make the device's state in a group durable, before the result of its step is sent."""
        write_atomically(self._group, digested(data))


def check_model(file: Path, welcome: Welcome) -> None:
    """Raise RunError if the file of the model that a run began with cannot be read, or is damaged."""
    with _readable(file):
        if sha256(pieces_of(file)) != welcome.model_digest.hex():
            raise RunError(f"{file} is damaged; expected the model of Welcome; start the device again")


def read_model(file: Path, welcome: Welcome, limits: Limits | None = None, wanted: Wanted = everything) -> Model:
    """Read the model that a run began with, once its digest is checked. See model_message.read for the arguments.

    Raises  RunError if it cannot be read, or is damaged. GraphError or CodecError if it is not valid.
    """
    check_model(file, welcome)
    with _readable(file), open(file, "rb") as opened:
        return model_message.read(opened, file.stat().st_size, limits, wanted)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error})") from None


def _round_of(file: Path) -> int:
    return read_round(file).round if file.exists() else 0


def read_enrolment(file: Path) -> Membership | None:
    """Read the run of a device, or None if there is no such file. Raises RunError if the file is damaged."""
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
