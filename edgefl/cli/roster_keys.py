"""`edgefl keys --roster` signs the next version of a roster, and `edgefl keys --show` shows a roster."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgefl.errors import RequestError, SecurityError
from edgefl.protocol.secure.identity import SigningIdentity
from edgefl.protocol.secure.roster import Roster, accepted_roster, signed_roster
from edgefl.protocol.trust.identity_files import (
    fingerprint,
    public_file,
    read_operator,
    read_public,
    read_signed_roster,
    roster_of,
)
from edgefl.protocol.trust.roster_changes import RosterChange, changed_roster
from edgefl.system.durable_files import check_writable, write_atomically


def sign(options: argparse.Namespace) -> int:
    """Write the next version of the roster, signed with the operator's key, unless nothing changes."""
    path: Path = options.roster
    if options.operator is None:
        raise RequestError("--roster without --operator; expected the file of the operator's secret key")
    operator = read_operator(Path(options.operator))
    check_writable(path)
    kept = _kept(path, operator) if path.exists() else None
    added = _keys("--add", options.add)
    for client, public in [] if options.add_from is None else _keys_from(options.add_from):
        if added.setdefault(client, public) != public:
            raise RequestError(f"{options.add_from} has another identity of client {client} than --add; expected one")
    change = RosterChange(added, _keys("--replace", options.replace), tuple(options.revoke))
    roster = changed_roster(kept, options.federation, change)
    if roster is not kept:
        write_atomically(path, signed_roster(roster, operator))
    if options.json:
        print(json.dumps({"roster": str(path), "changed": roster is not kept, **_content(roster)}))
        return 0
    if roster is kept:
        print(f"Nothing changes. {path} still has {_summary(roster)}.")
        return 0
    print(f"{path} has {_summary(roster)}.")
    print(f"The server gets {path}. Every device needs {public_file(Path(options.operator))}, once.")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the roster's clients, and whether the operator has signed it. Return 1 if the operator has not."""
    path: Path = options.show
    data = read_signed_roster(path)
    roster = roster_of(data)
    is_signed = None if options.operator is None else _is_signed(data, read_public(options.operator, "operator"))
    if options.json:
        print(json.dumps({"roster": str(path), **_content(roster), "signed": is_signed}))
        return 1 if is_signed is False else 0
    print(f"{path} has {_summary(roster)}.")
    for client, public in roster.keys.items():
        print(f"client {client:<6} {fingerprint(public)}{'  revoked' if client in roster.revoked else ''}")
    if is_signed is None:
        print("The signature was not checked, because --operator does not name the operator's public half.")
    else:
        print(f"{options.operator} has {'' if is_signed else 'NOT '}signed this roster.")
    return 1 if is_signed is False else 0


def _kept(path: Path, operator: SigningIdentity) -> Roster:
    """Return the present version. Raises RequestError if it is damaged, or another operator has signed it."""
    data = read_signed_roster(path)
    try:
        return accepted_roster(data, operator.public, roster_of(data).federation, None)
    except SecurityError as error:
        raise RequestError(f"{path}: {error}; expected the key and the roster of one operator") from None


def _is_signed(data: bytes, operator: bytes) -> bool:
    """Return whether the operator with this public half has signed the roster."""
    try:
        accepted_roster(data, operator, roster_of(data).federation, None)
    except SecurityError:
        return False
    return True


def _keys(option: str, texts: Iterable[str]) -> dict[int, bytes]:
    """Return the public halves of texts "ID=PUBLIC", by client."""
    found: dict[int, bytes] = {}
    for text in texts:
        client, equals, public = text.partition("=")
        if not equals or not _is_id(client) or int(client) in found:
            raise RequestError(f"{option} {text!r}; expected ID=PUBLIC, with another ID each time")
        found[int(client)] = read_public(public, "identity")
    return found


def _keys_from(path: Path) -> list[tuple[int, bytes]]:
    """Return clients and public halves of a directory with files ID.pub, or of a file with lines "ID PUBLIC"."""
    found = _in_directory(path) if path.is_dir() else _in_lines(path)
    if not found:
        raise RequestError(f"{path} has no identities; expected files ID.pub, or lines 'ID PUBLIC'")
    (client, times), *_ = Counter(client for client, _ in found).most_common(1)
    if times > 1:
        raise RequestError(f"{path} has client {client} {times} times; expected one identity for each client")
    return found


def _in_directory(path: Path) -> list[tuple[int, bytes]]:
    files = sorted(path.glob("*.pub"))
    if strange := [file for file in files if not _is_id(file.stem)]:
        raise RequestError(f"{strange[0]}; expected the client's id as the file's name, as 7.pub")
    return [(int(file.stem), read_public(str(file), "identity")) for file in files]


def _in_lines(path: Path) -> list[tuple[int, bytes]]:
    """Return the clients of a text file, in which empty lines and lines with # say nothing."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"--add-from {path}: {why}; expected a directory or a text file") from None
    found = []
    for number, line in enumerate(lines, 1):
        client, _, public = line.strip().partition(" ")
        if not client or client.startswith("#"):
            continue
        if not _is_id(client):
            raise RequestError(f"{path}, line {number}: client {client!r}; expected a line 'ID PUBLIC'")
        try:
            found.append((int(client), read_public(public, "identity")))
        except RequestError as error:
            raise RequestError(f"{path}, line {number}: {error}") from None
    return found


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _summary(roster: Roster) -> str:
    revoked = f", {len(roster.revoked)} of them revoked" if roster.revoked else ""
    return f"version {roster.version} of the federation {roster.federation!r} with {len(roster.keys)} clients{revoked}"


def _content(roster: Roster) -> dict[str, Any]:
    """Return a roster as JSON values."""
    clients = [{"client": client, "fingerprint": fingerprint(public)} for client, public in roster.keys.items()]
    return {
        "federation": roster.federation,
        "version": roster.version,
        "clients": clients,
        "revoked": list(roster.revoked),
    }
