"""The identity of a device towards its server: a file of its directory. The enrolled run is in device_state.py.

    secret   32 random bytes that the device enrols with in a run without keys, and proves from then on
    life     16 random bytes, new for every process that opens the directory; the server keeps the last that it heard of
    before   the life before this one, of which the server has heard; empty if there was none
    of       the folder that the identity belongs to (run_folders.py), so that a folder is not taken for another one;
             empty: an earlier version wrote it

A server that knows another life than these two has heard, since this directory was written, of a process that had a
copy of it. A life that the server may not have heard of is used again by the next process, so a process that is killed
at any point does not look like a copy.
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
    """The content of the file, in hex. `is_heard`: the server has heard of this life."""

    secret: str
    life: str
    before: str = ""
    is_heard: bool = False
    of: str = ""

    @staticmethod
    def drawn(random_bytes: Callable[[int], bytes]) -> Identity:
        """Of a directory that is used for the first time. `random_bytes`: that many random bytes."""
        return Identity(random_bytes(SECRET_BYTES).hex(), random_bytes(LIFE_BYTES).hex())

    def next(self, random_bytes: Callable[[int], bytes]) -> Identity:
        """The identity of the next process that opens the directory."""
        return Identity(self.secret, random_bytes(LIFE_BYTES).hex(), self.life, of=self.of) if self.is_heard else self

    def placed(self, of: str) -> Identity:
        """The identity in the folder of this name; unchanged if it has a name, or if no name is given."""
        return replace(self, of=self.of or of)

    def heard(self) -> Identity:
        """Once the server has answered."""
        return replace(self, is_heard=True)


def write_identity(file: Path, identity: Identity) -> None:
    """Readable by its owner alone, and durable."""
    write_atomically(file, json.dumps(seal(asdict(identity))).encode(), OWNER_ONLY)


def read_identity(file: Path) -> Identity | None:
    """None if there is no file. Raises RunError naming it if it is damaged."""
    record = read_sealed(file)
    if record is None:
        return None
    try:
        return Identity(**record)
    except TypeError as error:
        raise RunError(f"{file} is not the identity of a device ({error})") from None
