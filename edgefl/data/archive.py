"""Files inside a folder, a zip or a tar archive, read the same way: one pass, never more than is there.

Nothing is unpacked to disk, so a member's path can do no harm. Sizes in headers are claims: they are compared with what
arrives, and memory grows with what has arrived.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from edgefl.errors import DataError

_PIECE_BYTES = 1 << 20


def entries(source: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, BinaryIO]]:
    """(name, stream) of each file of `source` whose name is wanted; a stream is valid until the next step.

    source  a folder, or a zip or tar file. A name is the path inside it, with "/" and without a last ".gz"; what is
            compressed with gzip is decompressed on the fly. Folders are walked in sorted order, archives in their own.
    Raises  DataError naming the file if it cannot be read or is damaged.
    """
    for name, stream in _raw_entries(source):
        if wanted(name.removesuffix(".gz")):
            with damage_named(f"{source}: {name}"):
                plain = gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream
                yield name.removesuffix(".gz"), cast(BinaryIO, plain)


def read_exactly(stream: BinaryIO, size: int, what: str) -> bytearray:
    """The next `size` bytes. Raises DataError, naming `what`, if the stream ends before them or is damaged."""
    data = bytearray()
    with damage_named(what):
        while len(data) < size:
            piece = stream.read(min(_PIECE_BYTES, size - len(data)))
            if not piece:
                raise DataError(f"{what}: ends after {len(data)} bytes of content; expected {size}")
            data += piece
    return data


def expect_end(stream: BinaryIO, what: str) -> None:
    """Raises DataError, naming `what`, if anything follows."""
    with damage_named(what):
        if stream.read(1):
            raise DataError(f"{what}: has bytes after its content; expected the end of the file")


@contextmanager
def damage_named(what: str) -> Iterator[None]:
    """Errors of the file system and of the decompressors become a DataError that names `what`."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError) as error:
        # RuntimeError is how zipfile reports encryption and methods it does not know
        raise DataError(
            f"{what}: cannot be read ({error or type(error).__name__}); expected an undamaged file"
        ) from error


def _raw_entries(source: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    with damage_named(str(source)):
        if source.is_dir():
            yield from _folder_entries(source)
        elif zipfile.is_zipfile(source):
            yield from _zip_entries(source)
        elif tarfile.is_tarfile(source):
            yield from _tar_entries(source)
        else:
            raise DataError(f"{source}: is neither a folder nor a zip or tar file; expected one of them")


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
