"""The frozen parts of initial models that a device has received, by their SHA-256, for its later runs.

    DIR/base/NAME.base   8 bytes, the length of the list in bytes, little-endian
                         list of [SHA-256 in hexadecimal, size in bytes] as JSON
                         the parts, one after another

NAME is the SHA-256 of the list. A file is written under another name, synced and renamed. Each part is compared with
its digest before it is used. A file with a damaged part is removed, so that the part is sent again. The store is
bounded: the files that were used least recently are removed first. It holds nothing that a device has trained.
run_folders.py has the directory around it, and wire/model_parts.py lists the parts of a model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgefl.models.graph import Params
from edgefl.protocol.wire.model_parts import LEAST_BYTES
from edgefl.system.durable_files import private_directory, sync, write_atomically

FOLDER, SUFFIX = "base", ".base"
LENGTH_BYTES = 8
LONGEST_LIST = 1 << 20  # bytes of a list. A list of MOST_PARTS parts has less than 100 kB
MOST_BYTES = 1 << 30  # bytes of all files together
READ_BYTES = 1 << 20  # bytes that are read at once


class StoredPart(NamedTuple):
    """The place of a part: its file, its first byte there, and its number of bytes."""

    file: Path
    offset: int
    size: int

    def read(self) -> Iterator[bytes]:
        """Yield the bytes of the part. Raises OSError if the file is gone or too short."""
        with open(self.file, "rb") as opened:
            opened.seek(self.offset)
            left = self.size
            while left:
                data = opened.read(min(left, READ_BYTES))
                if not data:
                    raise OSError(f"{self.file} ends before its part of {self.size} bytes does")
                left -= len(data)
                yield data


class HeldPart(NamedTuple):
    """A part in memory."""

    values: memoryview

    @property
    def size(self) -> int:
        return len(self.values)

    def read(self) -> Iterator[memoryview]:
        """Yield the bytes of the part."""
        yield self.values


class BaseStore:
    """The store in a device's directory. No other process may write there at the same time.

    most_bytes  largest number of bytes of all files together
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path, self._most_bytes = path, most_bytes

    def find(self, wanted: Iterable[tuple[bytes, int]]) -> dict[bytes, StoredPart]:
        """Return the undamaged parts among the wanted ones, by digest. `wanted` has digests with sizes in bytes.

        A file with a damaged part is removed.
        """
        known, found = self._parts(), dict[bytes, StoredPart]()
        for digest, size in wanted:
            part = known.get(digest)
            if part is None or part.size != size or digest in found:
                continue
            if _digest(part) == digest:
                found[digest] = part
            else:
                self._remove(part.file)
                known = self._parts()
        found = {digest: part for digest, part in found.items() if part.file.exists()}
        for file in {part.file for part in found.values()}:
            os.utime(file)  # the file was used now
        return found

    def keep(self, parts: Sequence[tuple[bytes, StoredPart | HeldPart]]) -> None:
        """Keep parts, given with their digests, of which the store has some already. Older files make room.

        Parts that are larger together than the whole store are not kept.
        Raises  OSError if the disk refuses.
        """
        known = self._parts()
        new = [(digest, part) for digest, part in dict(parts).items() if digest not in known]
        listed = json.dumps([[digest.hex(), part.size] for digest, part in new]).encode()
        size = LENGTH_BYTES + len(listed) + sum(part.size for _, part in new)
        if not new or size > self._most_bytes:
            return
        private_directory(self.path)
        file = self.path / f"{hashlib.sha256(listed).hexdigest()}{SUFFIX}"
        self._make_room(self._most_bytes - size)
        head = len(listed).to_bytes(LENGTH_BYTES, "little")
        write_atomically(file, chain([head, listed], *(part.read() for _, part in new)), 0o600)

    def keep_model(self, params: Params) -> None:
        """Keep the parameters of a model that lies on the device, so that no server has to send them. Raises OSError if
        the disk refuses.
        """
        arrays = (np.ascontiguousarray(value, np.float32) for value in params.values())
        values = [array.data.cast("B") for array in arrays if array.nbytes >= LEAST_BYTES]
        self.keep([(hashlib.sha256(value).digest(), HeldPart(value)) for value in values])

    def _make_room(self, most: int) -> None:
        """Remove the files that were used least recently until the others have at most so many bytes together."""
        files = sorted(self._files(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for file in files:
            most -= file.stat().st_size
            if most < 0:
                self._remove(file)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob(f"*{SUFFIX}"))

    def _parts(self) -> dict[bytes, StoredPart]:
        """Return the place of every part that a list names. A file with a damaged list is removed."""
        found: dict[bytes, StoredPart] = {}
        for file in self._files():
            try:
                found |= _listed(file)
            except (OSError, TypeError, ValueError):
                self._remove(file)
        return found

    def _remove(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        sync(self.path)


def _listed(file: Path) -> dict[bytes, StoredPart]:
    """Return the parts that a file lists. Raises ValueError or TypeError if the list is damaged."""
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(LENGTH_BYTES), "little")
        if length > LONGEST_LIST:
            raise ValueError(f"{file} has a list of {length} bytes; expected at most {LONGEST_LIST}")
        text = opened.read(length)
    if hashlib.sha256(text).hexdigest() != file.name.removesuffix(SUFFIX):
        raise ValueError(f"{file} has another list than its name says")
    offset, found = LENGTH_BYTES + length, dict[bytes, StoredPart]()
    for digest, size in json.loads(text):
        found[bytes.fromhex(digest)] = StoredPart(file, offset, size)
        offset += size
    return found


def _digest(part: StoredPart) -> bytes:
    """Return the SHA-256 of a part's bytes, or b"" if they cannot be read."""
    found = hashlib.sha256()
    try:
        for data in part.read():
            found.update(data)
    except OSError:
        return b""
    return found.digest()
