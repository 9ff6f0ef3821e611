"""A disk with a page cache: the files that recorded calls make, and the files that a loss of power may leave.

The rules are those of POSIX. The content of a file is durable up to its last fsync. A name is durable once its
directory is synced, whether the file is synced or not. Whatever is not durable may be there or may be lost, in any
combination. A write may be torn at every 512 bytes. A rename has happened or has not happened. If the name of a folder
is lost, everything in the folder is lost.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

from tests.crash_points.record import Event, Kind

SECTOR = 512  # bytes that a disk writes as a whole
T = TypeVar("T")

Variant = Literal["nothing", "all", "torn"]
"""A variant leaves nothing, everything, or a random part of each file and directory that is not durable."""
VARIANTS: tuple[Variant, ...] = ("nothing", "all", "torn")


@dataclass(frozen=True)
class Piece:
    """A part of a change that a disk makes as a whole: data at an offset, or a new size if `data` is None."""

    at: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.at :]
        content.extend(bytes(max(0, self.at + len(self.data or b"") - len(content))))
        if self.data is not None:
            content[self.at : self.at + len(self.data)] = self.data


@dataclass(eq=False)
class File:
    """A file or a folder. `pending` has the changes after the last fsync."""

    durable: bytes = b""
    pending: list[Piece] = field(default_factory=list)
    is_folder: bool = False

    def write(self, at: int, data: bytes) -> None:
        """Note a write as one piece for each sector that it touches."""
        while data:
            size = SECTOR - at % SECTOR
            self.pending.append(Piece(at, data[:size]))
            at, data = at + size, data[size:]

    def content(self, pieces: Iterable[Piece] | None = None) -> bytes:
        """Return the content with these of the pending pieces. None: with all."""
        found = bytearray(self.durable)
        for piece in self.pending if pieces is None else pieces:
            piece.apply(found)
        return bytes(found)

    def sync(self) -> None:
        self.durable, self.pending = self.content(), []


@dataclass(frozen=True)
class Naming:
    """A change of a directory: `new` is a name of the file from now on, and `old` is no longer its name."""

    file: File
    new: str | None = None
    old: str | None = None

    def apply(self, names: dict[str, File]) -> None:
        if self.old is not None and names.get(self.old) is self.file:
            del names[self.old]
        if self.new is not None:
            names[self.new] = self.file


class Disk:
    """The disk of one machine. `names` are the files as its processes see them, by path."""

    def __init__(self, names: dict[str, File]) -> None:
        self.names = dict(names)
        self._durable = dict(names)
        self._namings: dict[str, list[Naming]] = {}  # by directory

    @staticmethod
    def of(root: Path) -> Disk:
        """Return a disk on which all files under `root` are durable."""
        names = {"": File(is_folder=True)}
        for path in root.rglob("*"):
            name = str(path.relative_to(root).as_posix())
            names[name] = File(is_folder=True) if path.is_dir() else File(path.read_bytes())
        return Disk(names)

    def apply(self, event: Event) -> None:
        """Carry out a recorded call. Changes of files without a name, which nobody can read after a crash, are dropped.

        Raises  NotImplementedError for a rename of a folder or between folders.
        """
        name = "" if event.name == "." else event.name
        if event.kind in (Kind.CREATE, Kind.MKDIR):
            self._name(name, Naming(File(is_folder=event.kind is Kind.MKDIR), new=name))
        elif (file := self.names.get(name)) is not None:
            self._change(event, name, file)

    def _change(self, event: Event, name: str, file: File) -> None:
        if event.kind is Kind.WRITE:
            file.write(event.at, event.data)
        elif event.kind is Kind.TRUNCATE:
            file.pending.append(Piece(event.at, None))
        elif event.kind is Kind.SYNC:
            file.sync()
            for naming in self._namings.pop(name, []) if file.is_folder else []:
                naming.apply(self._durable)
        elif event.kind in (Kind.UNLINK, Kind.RMDIR):
            self._name(name, Naming(file, old=name))
        elif event.kind is Kind.RENAME:
            new = event.data.decode()
            if file.is_folder or _folder(new) != _folder(name):
                raise NotImplementedError(f"{name} was renamed to {new}; expected a file, in one folder")
            self._name(name, Naming(file, new, name))

    def _name(self, name: str, naming: Naming) -> None:
        naming.apply(self.names)
        self._namings.setdefault(_folder(name), []).append(naming)

    def left(self, variant: Variant, draw: random.Random, under: str = "") -> dict[str, bytes | None]:
        """Return what a loss of power leaves of a folder: the content of each file, None for a folder, by path."""
        names = dict(self._durable)
        for namings in self._namings.values():
            for naming in _part(namings, variant, draw):
                naming.apply(names)
        contents: dict[File, bytes] = {}
        for file in names.values():
            if file not in contents:
                contents[file] = file.content(_part(file.pending, variant, draw))
        reached = {name: file for name, file in names.items() if all(above in names for above in _above(name))}
        found = {name: None if file.is_folder else contents[file] for name, file in sorted(reached.items()) if name}
        return {name: content for name, content in found.items() if not under or f"{name}/".startswith(f"{under}/")}

    def undurable(self) -> list[str]:
        """Return the paths whose content or name a loss of power may change."""
        files = [name for name, file in self.names.items() if file.pending]
        namings = [naming.new or naming.old or "" for group in self._namings.values() for naming in group]
        return sorted({*files, *namings})


def _part(changes: list[T], variant: Variant, draw: random.Random) -> list[T]:
    """Return the changes that reached the disk, in order: none, all, the first ones, or a random subset."""
    if variant != "torn":
        return [] if variant == "nothing" else changes
    which = draw.choice(("nothing", "all", "prefix", "subset"))
    if which == "prefix":
        return changes[: draw.randint(0, len(changes))]
    return [change for change in changes if which == "all" or (which == "subset" and draw.random() < 0.5)]


def _folder(name: str) -> str:
    parent = str(PurePosixPath(name).parent)
    return "" if parent == "." else parent


def _above(name: str) -> Iterator[str]:
    """Yield the folders above a name."""
    while name:
        name = _folder(name)
        yield name


def write_files(root: Path, files: dict[str, bytes | None]) -> None:
    """Make these files and folders under `root`. Folders stand before what is in them."""
    for name, content in files.items():
        if content is None:
            (root / name).mkdir(parents=True, exist_ok=True)
        else:
            (root / name).write_bytes(content)
