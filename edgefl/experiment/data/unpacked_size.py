"""A bound on the memory that an npz file takes when it is unpacked. The file's arrays are not read here."""

from __future__ import annotations

import zipfile
from pathlib import Path

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named


def check_unpacked(path: Path, most: int) -> None:
    """Raise DataError for an npz file whose arrays take over `most` bytes more than the file. No array is read."""
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        unpacked, packed = sum(each.file_size for each in archive.infolist()), path.stat().st_size
    if unpacked - packed > most:
        raise DataError(
            f"{path}: {packed} bytes that unpack to {unpacked}; the limit is --max-memory {most} more than the file; "
            "expected fewer samples, or an npz file that is not compressed"
        )
