"""Other keys for clients of a run. For a time a client has two valid keys, so its device changes when it suits it.

    DIR/device-0003-2.key  second key of client 3, to be brought to that device. The next one is device-0003-3.key

keys.py has the files. A server reads its table again while it runs (server/trust_files.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import MOST_KEYS, TABLE, KeyTable, key_file, read_table, table_text, write_private
from edgefl.protocol.wire.handshake import KEY_BYTES
from edgefl.system.durable_files import write_atomically


def renew_keys(
    directory: Path, clients: Iterable[int] | None, draw: Callable[[int], bytes] = secrets.token_bytes
) -> dict[int, Path]:
    """Give clients a second key beside the present one. Return the file of the new key by client.

    directory  holds the server's table, which is replaced once all new keys are on the disk
    clients    ids, or None for all clients of the table
    draw       returns as many random bytes as its argument says
    Raises     RequestError if a client is not in the table or has two keys already. OSError if the disk refuses.
    """
    table = read_table(directory / TABLE)
    chosen = _chosen(table, clients, directory)
    if full := [client for client in chosen if len(table[client]) == MOST_KEYS]:
        raise RequestError(f"client {full[0]} has two keys already; expected --retire {full[0]} first")
    files = {}
    for client in chosen:
        key, files[client] = draw(KEY_BYTES), _next_file(directory, client)
        write_private(files[client], f"{key.hex()}\n".encode())
        table[client] = (*table[client], key)
    _replace_table(directory, table)
    return files


def retire_keys(directory: Path, clients: Iterable[int] | None) -> list[int]:
    """Let only the newest key of clients be valid. Return the ids of the clients that had two keys.

    directory  holds the server's table, which is replaced
    clients    ids, or None for all clients of the table
    Raises     RequestError if a client is not in the table. OSError if the disk refuses.
    """
    table = read_table(directory / TABLE)
    had_two = [client for client in _chosen(table, clients, directory) if len(table[client]) == MOST_KEYS]
    if had_two:
        _replace_table(directory, {**table, **{client: table[client][-1:] for client in had_two}})
    return had_two


def _chosen(table: KeyTable, clients: Iterable[int] | None, directory: Path) -> list[int]:
    chosen = list(table) if clients is None else list(dict.fromkeys(clients))
    if strange := [client for client in chosen if client not in table]:
        raise RequestError(f"client {strange[0]} has no line in {directory / TABLE}; expected the id of a client there")
    return chosen


def _next_file(directory: Path, client: int) -> Path:
    """Return a file that does not exist yet, for a client's next key."""
    first = key_file(directory, client)
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in count(2))
    return next(file for file in numbered if not file.exists())


def _replace_table(directory: Path, table: KeyTable) -> None:
    write_atomically(directory / TABLE, table_text(table), mode=0o600)
