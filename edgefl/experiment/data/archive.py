"""Files inside a folder, a zip or a tar archive. All three are read in one pass, and never further than their end.

Nothing is unpacked to disk, so a member's path can do no harm. checked_reader.py reads what an entry holds.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named


def entries(source: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) for each file of `source` whose name is wanted. A stream is valid until the next step.

    source  a folder, or a zip or tar file. A name is the path inside it, with "/" and without a last ".gz". Files in
            gzip format are decompressed on the fly. Folders are walked in sorted order, archives in their own.
    Raises  DataError naming the file if it cannot be read or is damaged.
    """
    for name, stream in _raw_entries(source):
        if wanted(name.removesuffix(".gz")):
            with damage_named(f"{source}: {name}"):
                plain = gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream
                yield name.removesuffix(".gz"), cast(BinaryIO, plain)


def _raw_entries(source: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    with damage_named(str(source)):
        if source.is_dir():
            yield from _folder_entries(source)
        elif zipfile.is_zipfile(source):
            yield from _zip_entries(source)
        elif tarfile.is_tarfile(source):
            yield from _tar_entries(source)
        else:
            raise DataError(
                f"{source}: is neither a folder nor a zip or tar file; expected a folder, a zip file or a tar file"
            )


def _folder_entries(source: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    for path in sorted(source.rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                yield path.relative_to(source).as_posix(), stream


def _zip_entries(source: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as stream:
                    yield info.filename, cast(io.BufferedReader, stream)


def _tar_entries(source: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    with tarfile.open(source) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name.removeprefix("./"), cast(io.BufferedReader, stream)
