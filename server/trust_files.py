"""The files of a server's trust, which are read again when they change: the table of keys, and the TLS certificate.

A file is read once two looks have found it alike, so that nobody reads a part of a file that is being written. A file
that cannot be used changes nothing, and a line says why.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import KeyTable, read_table
from edgefl.protocol.trust.tls import load_pair
from edgefl.server.events import KeyChanged
from edgefl.system.log_lines import Alert, LogLine

LOOK_EVERY_S = 0.3  # seconds between looks at the files. A change counts after less than a second
Stamp = tuple[int, int, int]  # inode, size and time of change of a file


@dataclass
class WatchedFiles:
    """Files that belong together, with their stamps as of the last reading and of the last look."""

    paths: tuple[Path, ...]
    read: tuple[Stamp | None, ...] = ()
    seen: tuple[Stamp | None, ...] = ()

    def __post_init__(self) -> None:
        self.read = self.seen = tuple(map(_stamp, self.paths))

    def have_changed(self) -> bool:
        """Return whether the files have other contents than at the last reading, and have been the same since the last
        look. They count as read from now on.
        """
        now = tuple(map(_stamp, self.paths))
        is_settled, self.seen = now == self.seen, now
        if not is_settled or now == self.read or None in now:
            return False
        self.read = now
        return True


@dataclass
class TrustFiles:
    """The files of one server.

    table        file with the keys of the clients, or None in a run without keys
    keys         valid keys by client, which are changed in place
    certificate  file of the server's certificate and file of its key, or None without TLS
    context      TLS context of the server, which new connections get
    """

    table: Path | None = None
    keys: KeyTable = field(default_factory=dict)
    certificate: tuple[Path, Path] | None = None
    context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._table = None if self.table is None else WatchedFiles((self.table,))
        self._pair = None if self.certificate is None else WatchedFiles(self.certificate)

    def look(self) -> Iterator[KeyChanged | LogLine]:
        """Read what has changed. Yield an event for each client whose key has changed, and lines for people."""
        if self._table is not None and self._table.have_changed():
            yield from self._read_keys()
        if self._pair is not None and self._pair.have_changed():
            yield self._load_certificate()

    def _read_keys(self) -> Iterator[KeyChanged | LogLine]:
        assert self.table is not None
        try:
            found = read_table(self.table)
        except RequestError as error:
            yield Alert(f"{error}; the keys of before stay valid")
            return
        before = dict(self.keys)
        self.keys.clear()
        self.keys.update(found)
        gone = sorted(before.keys() - found.keys())
        both = sorted(before.keys() & found.keys())
        other = [client for client in both if not {*before[client]} <= {*found[client]}]
        changing = sum(len(keys) > 1 for keys in found.values())
        yield LogLine(
            f"{self.table} was read again: {len(found)} clients, {changing} with two keys, {len(gone)} without a key "
            f"since, {len(other)} with a key replaced"
        )
        for client in gone:
            yield KeyChanged(client, "the key of this client was withdrawn")
        for client in other:
            why = "the key of this client was replaced; start its device with the new key"
            yield KeyChanged(client, why, found[client])

    def _load_certificate(self) -> LogLine:
        assert self.certificate is not None
        assert self.context is not None
        try:
            load_pair(self.context, *self.certificate)
        except RequestError as error:
            return Alert(f"{error}; new connections get the certificate of before")
        return LogLine(f"{self.certificate[0]} was read again: new connections get it")


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
