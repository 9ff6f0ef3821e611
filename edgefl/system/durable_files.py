"""Files that survive a crash or a loss of power: they are written whole or not at all, locked and synced.

Files of arrays or JSON are read back here, too. A digest shows whether they are damaged.
The contents are defined elsewhere: models in edgefl/models/graph/model_files.py, runs in
edgefl/study/simulation/journal.py and server/store.py, and the state of a device in
edgefl/deployment/device/device_state.py.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors

from edgefl.errors import RequestError, RunError
from edgefl.system.safetensors_files import read_arrays

DIGEST = "sha256"
JOINED_BYTES = 1 << 20  # bytes up to which pieces are joined, and bytes of a file that are read at once

Piece = bytes | memoryview
"""Some bytes of a file. A memoryview has items of one byte."""


def private_directory(path: Path) -> None:
    """Make `path`, which its owner alone may read, and missing folders above it. An existing `path` stays as it is.

    Each made folder is brought to the disk, because a loss of power that takes a folder's name takes all files in it.
    """
    missing = list(takewhile(lambda folder: not folder.exists(), chain((path,), path.parents)))
    for folder in reversed(missing):
        folder.mkdir(mode=0o700 if folder == path else 0o777, exist_ok=True)
        with suppress(PermissionError):  # the parent may be a folder in which its user may write but not read
            sync(folder.parent)
    if not missing:
        sync_name(path)


def sync_name(path: Path) -> None:
    """Bring the name of an existing file or folder to the disk, if its folder can be synced.

    A process that was killed may have made the name without bringing it to the disk.
    Raises  OSError if the disk fails.
    """
    try:
        sync(path.absolute().parent)
    except OSError as error:  # the folder above may be unreadable, or on a read-only file system
        if error.errno == errno.EIO:
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of the with block name this file. The system does not name a file that is open already."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_atomically(path: Path, data: bytes | Iterable[Piece], mode: int = 0o666) -> None:
    """Replace `path` by a file of `data`: a temporary file in its directory, fsync, rename, fsync of the directory.

    data  content of the file, or its pieces one after another
    mode  permissions of the file, of which the umask of the process takes some away
    Raises  OSError if the disk refuses.
    """
    beside = temporary(path)
    try:
        with naming(path), open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            for piece in (data,) if isinstance(data, bytes) else joined(data):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces with the small ones among them joined, so that a small file is written at once."""
    waiting, size = list[Piece](), 0
    for piece in pieces:
        if waiting and size + len(piece) > JOINED_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
        if len(piece) > JOINED_BYTES:
            yield piece
        else:
            waiting.append(piece)
            size += len(piece)
    if waiting:
        yield b"".join(waiting)


def why_unwritable(path: Path) -> str | None:
    """Return the reason why a file cannot be written at `path`, or None if it can. An existing file keeps its content.

    To find out, it opens the file if it exists, and writes an empty temporary file in its directory.
    """
    try:
        if path.exists():
            with open(path, "ab"):
                pass
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__


def check_writable(path: Path) -> None:
    """Raise RequestError if a file that a user asked for cannot be written. Call it before costly work."""
    if path.is_dir():
        raise RequestError(f"{path} is a directory; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise RequestError(f"{path} lies in a directory that does not exist; expected an existing directory")
    if (why := why_unwritable(path)) is not None:
        raise RequestError(f"{path} cannot be written ({why}); expected a file in a directory of your own")


def temporary(path: Path) -> Path:
    """Return the path to which write_atomically writes before it renames.

    A crash may leave a file there, which the next write replaces.
    """
    return path.with_name(f".{path.name}.tmp")


def sync(path: Path) -> None:
    """Bring the content of a file, or the names in a directory, to the disk."""
    if path.is_dir() and os.name != "posix":
        return  # such systems cannot open a directory, and the rename itself is as durable as it gets
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def lock(file: Path) -> IO[bytes]:
    """Return the file, open and locked until it is closed or the process ends.

    Raises  RunError if another process holds the lock.
    """
    import fcntl  # POSIX alone has fcntl, and the rest of this file works on other systems too

    opened = open(file, "ab")  # noqa: SIM115 (closed by the caller)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        opened.close()
        raise RunError(f"{file.parent} is in use by another process; expected one process at a time") from None
    return opened


def load_arrays(file: Path, names: Collection[str] | None = None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return arrays of a safetensors file (None: all) and its metadata. Raises RunError if the file is missing or
    corrupt.
    """
    try:
        with safetensors.safe_open(str(file), "numpy") as opened:
            metadata = opened.metadata() or {}
        return read_arrays(file, names), metadata
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise RunError(f"{file} cannot be read ({error}); expected the file as edgefl wrote it") from None


def sha256(data: bytes | Iterable[Piece]) -> str:
    """Return the SHA-256 of the data, or of their pieces one after another, as 64 hexadecimal digits."""
    found = hashlib.sha256()
    for piece in (data,) if isinstance(data, bytes) else data:
        found.update(piece)
    return found.hexdigest()


def pieces_of(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces of at most JOINED_BYTES bytes. Raises OSError if it cannot be read."""
    with open(file, "rb", buffering=0) as opened:
        while piece := opened.read(JOINED_BYTES):
            yield piece


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values and one more, DIGEST: the SHA-256 of all other values, which reveals every change."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    return {**rest, DIGEST: sha256(json.dumps(rest, sort_keys=True).encode())}


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file, without its digest if it has one.

    Raises  FileNotFoundError if there is no file, RunError if it is damaged or is not an object.
    """
    try:
        with naming(file):
            found = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RunError(f"{file} is not JSON ({error}); expected the file as edgefl wrote it") from None
    if not isinstance(found, dict):
        raise RunError(f"{file} is {type(found).__name__} as JSON; expected an object")
    if DIGEST in found and found != with_digest(found):
        raise RunError(f"{file} is damaged; expected content with the SHA-256 that it states")
    return {name: value for name, value in found.items() if name != DIGEST}


def check_sha256(file: Path, expected: str) -> None:
    """Raise RunError unless the file has this SHA-256."""
    try:
        found = sha256(pieces_of(file))
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error})") from None
    if found != expected:
        raise RunError(f"{file} is damaged; its SHA-256 begins with {found[:16]}, expected {expected[:16]}")
