"""Device keys as files: 32 random bytes each, in hex, readable by their owner alone.

    DIR/device-0003.key   the key of client 3, to be brought to that device
    DIR/server.keys       the server's table, a line "3 <hex>" for each client, or "3 <hex> <hex>" while its device
                          changes from the first key to the second

wire/handshake.py has the proof that uses the keys, key_rotation.py gives clients other keys, and certificates.py has
the certificates.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.protocol.wire.handshake import KEY_BYTES
from edgefl.system.durable_files import naming, sync_name

TABLE = "server.keys"
MOST_KEYS = 2  # of a client at a time

KeyTable = dict[int, tuple[bytes, ...]]  # the valid keys by client, the newest last

LARGEST_KEY, LARGEST_TABLE = 1 << 12, 1 << 27  # bytes of a file. A table of this size has about 1.7 million clients


def make_keys(directory: Path, clients: int, draw: Callable[[int], bytes] = secrets.token_bytes) -> None:
    """Write a key for each of the clients 0, 1, ... and the server's table of the keys.

    draw    returns as many random bytes as its argument says
    Raises  RequestError if `clients` is below 1, or if there are keys already, because a key that was handed out must
            not be lost.
    """
    if clients < 1:
        raise RequestError(f"clients={clients}; expected clients >= 1")
    if (directory / TABLE).exists():
        raise RequestError(f"{directory} holds {TABLE} already; expected a directory without keys")
    directory.mkdir(parents=True, exist_ok=True)
    keys = {client: draw(KEY_BYTES).hex() for client in range(clients)}
    for client, key in keys.items():
        write_private(key_file(directory, client), f"{key}\n".encode())
    write_private(directory / TABLE, table_text({client: (bytes.fromhex(key),) for client, key in keys.items()}))


def table_text(table: KeyTable) -> bytes:
    """Return the content of the server's table file: a line per client."""
    lines = (f"{client} {' '.join(key.hex() for key in keys)}\n" for client, keys in table.items())
    return "".join(lines).encode()


def key_file(directory: Path, client: int) -> Path:
    """Return the file into which make_keys writes the key of a client."""
    return directory / f"device-{client:04d}.key"


def read_key(path: Path) -> bytes:
    """Read the 32 bytes of a device's key. Raises RequestError if the file is missing, readable by others or no key."""
    return _key(read_private(path, LARGEST_KEY).strip(), str(path))


def read_table(path: Path) -> KeyTable:
    """Read the server's keys by client. Raises RequestError naming the line that is wrong, or as read_key does."""
    keys: KeyTable = {}
    for number, line in enumerate(read_private(path, LARGEST_TABLE).splitlines(), 1):
        where = f"{path}, line {number}"
        client, _, rest = line.partition(" ")
        if not client.isascii() or not client.isdigit() or int(client) in keys:
            raise RequestError(f"{where}: client {client!r}; expected a number that no other line has")
        keys[int(client)] = _line_keys(rest, where)
    if not keys:
        raise RequestError(f"{path} is empty; expected a line 'CLIENT KEY' per device")
    return keys


def write_private(path: Path, data: bytes) -> None:
    """Write a new file that its owner alone can read, and bring it to the disk.

    Raises  FileExistsError rather than replace a secret, OSError if the disk refuses. No part of a file is left then.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with naming(path), os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    sync_name(path)


def check_private(path: Path) -> None:
    """Raise RequestError if users other than the owner may read or write the file, or if it is missing."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise RequestError(f"key file {path}: {error.strerror}; expected a file that `edgefl keys` makes") from None
    if mode & 0o077:
        raise RequestError(f"key file {path} has mode {mode:04o}; expected 0600, readable only by its owner")


def read_private(path: Path, most: int) -> str:
    """Return the text of a secret file of up to `most` bytes.

    Raises  RequestError if the file is missing, larger, not ASCII, or readable by users other than its owner.
    """
    check_private(path)
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
        text = content.decode("ascii")
    except OSError as error:
        raise RequestError(f"key file {path}: {error.strerror}; expected a file that `edgefl keys` makes") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"key file {path}: {error}; expected a file that `edgefl keys` makes") from None
    if len(content) > most:
        raise RequestError(f"key file {path} has more than {most} bytes; expected a file that `edgefl keys` wrote")
    return text


def _line_keys(text: str, where: str) -> tuple[bytes, ...]:
    found = tuple(_key(word, where) for word in text.split() or [""])
    if len(found) > MOST_KEYS or len(set(found)) < len(found):
        raise RequestError(f"{where}: {len(found)} keys, {len(set(found))} of them different; expected one or two keys")
    return found


def _key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        raise RequestError(f"{where}: not hexadecimal; expected {2 * KEY_BYTES} hexadecimal digits") from None
    if len(key) != KEY_BYTES:
        raise RequestError(f"{where}: a key of {len(key)} bytes; expected {KEY_BYTES}")
    return key
