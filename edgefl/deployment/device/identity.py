"""The identity of a device towards its server: a file of its directory. The enrolled run is in device_state.py.

    secret   32 random bytes with which the device enrols in a run without keys, and which it proves from then on
    life     16 random bytes, new for every process that opens the directory. The server keeps the last life it heard of
    before   the last earlier life of which the server has heard, or empty
    of       name of the folder that the identity belongs to (run_folders.py), so that a folder is not taken for another
             one. Empty: an earlier version wrote it

If a server knows another life than `life` and `before`, then a process with a copy of this directory has talked to the
server since the file was written. The next process uses a life again of which the server may not have heard, so a
process that is killed at any point does not look like a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgefl.deployment.device.digest_record import read_sealed, seal
from edgefl.errors import RunError
from edgefl.system.durable_files import write_atomically

SECRET_BYTES = 32
LIFE_BYTES = 16
OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Identity:
    """The content of the file, with bytes in hex. `is_heard`: the server has heard of this life."""

    secret: str
    life: str
    before: str = ""
    is_heard: bool = False
    of: str = ""

    @staticmethod
    def drawn(random_bytes: Callable[[int], bytes]) -> Identity:
        """Draw the identity of a new directory. `random_bytes` returns as many random bytes as its argument says."""
        return Identity(random_bytes(SECRET_BYTES).hex(), random_bytes(LIFE_BYTES).hex())

    def next(self, random_bytes: Callable[[int], bytes]) -> Identity:
        """Return the identity of the next process that opens the directory."""
        return Identity(self.secret, random_bytes(LIFE_BYTES).hex(), self.life, of=self.of) if self.is_heard else self

    def placed(self, of: str) -> Identity:
        """Return the identity in the folder of this name. It does not change if it has a name, or if `of` is empty."""
        return replace(self, of=self.of or of)

    def heard(self) -> Identity:
        """Return the identity after the server has answered."""
        return replace(self, is_heard=True)


def write_identity(file: Path, identity: Identity) -> None:
    """Write the file durably, readable by its owner alone."""
    write_atomically(file, json.dumps(seal(asdict(identity))).encode(), OWNER_ONLY)


def read_identity(file: Path) -> Identity | None:
    """Read the identity, or None if there is no file. Raises RunError naming the file if it is damaged."""
    record = read_sealed(file)
    if record is None:
        return None
    try:
        return Identity(**record)
    except TypeError as error:
        raise RunError(f"{file} is not the identity of a device ({error})") from None
