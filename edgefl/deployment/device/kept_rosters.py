"""The newest roster of each federation that a device has accepted, in files of the device's directory.

A file's name follows from the operator and the federation. So an agent can serve federations of several operators, and
none of them can take another's place.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgefl.deployment.device.digest_record import digested, read_digested
from edgefl.system.durable_files import write_atomically

PREFIX, NAME_DIGITS = "roster", 16


class KeptRosters:
    """The rosters in one directory, as signed bytes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of(self, operator: bytes) -> list[bytes]:
        """Return the rosters that this operator has signed, one for each of its federations.

        operator  32 bytes, public half of the operator's key
        Raises    RunError if a file is damaged.
        """
        found = [read_digested(file) for file in sorted(self._directory.glob(f"{PREFIX}-{_digits(operator)}-*.bin"))]
        return [data for data in found if data is not None]

    def keep(self, operator: bytes, federation: str, data: bytes) -> None:
        """Make the newest roster of a federation durable. Raises OSError if the disk refuses."""
        name = f"{PREFIX}-{_digits(operator)}-{_digits(federation.encode())}.bin"
        write_atomically(self._directory / name, digested(data))


def _digits(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:NAME_DIGITS]
