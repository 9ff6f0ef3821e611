"""Files of secure aggregation: the identities of devices, the operator's key, and the signed roster.

    FILE      secret key of a device or of the operator, as JSON that says what it is, readable by its owner alone
    FILE.pub  public half of the operator's key, which every device gets
    ROSTER    signed bytes of protocol/secure/roster.py, which anybody may read and carry

A public half is one line of text: "edgefl-identity" or "edgefl-operator", and 64 hexadecimal digits. The module needs
the package `cryptography`. roster_changes.py makes the next version of a roster.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from edgefl.errors import RequestError, SecurityError
from edgefl.protocol.secure.identity import IDENTITY_BYTES, SigningIdentity
from edgefl.protocol.secure.roster import Roster, decoded_roster
from edgefl.protocol.trust.keys import read_private, write_private
from edgefl.system.durable_files import check_writable, sync_name, write_atomically

Owner = Literal["identity", "operator"]
FORMAT = 1  # version of a secret file's format
OWNERS: dict[Owner, tuple[str, str]] = {  # -> whose key it is, and the command that makes the key
    "identity": ("a device's identity", "edgefl keys --join FILE"),
    "operator": ("the operator's key", "edgefl keys --operator FILE"),
}
PUBLIC = re.compile(r"(?:edgefl-(identity|operator)\s+)?([0-9a-fA-F]{64})")
LARGEST_SECRET, LARGEST_ROSTER = 1 << 12, 1 << 26  # bytes of a file

Draw = Callable[[int], bytes]


def make_identity(path: Path, draw: Draw = secrets.token_bytes) -> SigningIdentity:
    """Return a device's identity, whose secret is in the file. A missing file is written with a new identity first.

    draw    returns as many random bytes as its argument says
    Raises  RequestError if the file cannot be written, or as read_identity does. OSError if the disk refuses.
    """
    return _made(path, "identity", draw)


def read_identity(path: Path) -> SigningIdentity:
    """Read a device's identity from the file of its secret.

    Raises  RequestError if the file is missing, readable by other users, damaged, or has another kind of key.
    """
    return _read(path, "identity")


def make_operator(path: Path, draw: Draw = secrets.token_bytes) -> SigningIdentity:
    """Return the operator's key. A missing file is written with a new key first. The public half gets its own file.

    draw    returns as many random bytes as its argument says
    Raises  RequestError if a file cannot be written, or as read_operator does. OSError if the disk refuses.
    """
    public = public_file(path)
    check_writable(public)
    operator = _made(path, "operator", draw)
    write_atomically(public, f"{public_line(operator.public, 'operator')}\n".encode())
    return operator


def read_operator(path: Path) -> SigningIdentity:
    """Read the operator's key from the file of its secret. Raises RequestError as read_identity does."""
    return _read(path, "operator")


def public_file(path: Path) -> Path:
    """Return the file of the public half that belongs to the file of an operator's secret."""
    return path.with_name(f"{path.name}.pub")


def public_line(public: bytes, owner: Owner) -> str:
    """Return the public half of a key, 32 bytes, as a line of text that names whose key it is."""
    return f"edgefl-{owner} {public.hex()}"


def fingerprint(public: bytes) -> str:
    """Return 16 hexadecimal digits by which people compare the public halves of keys: the first of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]


def read_public(path_or_text: str, owner: Owner | None = None) -> bytes:
    """Return the 32 bytes of a public half, from its line of text or from the file with this line.

    owner   whose public half is expected. None: anybody's
    Raises  RequestError for another text, a file that is missing or has a secret, or the key of another owner.
    """
    text = path_or_text.strip()
    line = PUBLIC.fullmatch(text) or PUBLIC.fullmatch(_public_text(Path(path_or_text)))
    if line is None:
        raise RequestError(f"{path_or_text} has no public half of a key; expected a line as {_line_of(owner)!r}")
    if owner is not None and line[1] not in (owner, None):
        raise RequestError(
            f"{path_or_text} is the public half of {OWNERS[_owner(line[1])][0]}; expected {_asked(owner)}"
        )
    return bytes.fromhex(line[2])


def read_signed_roster(path: Path) -> bytes:
    """Return the signed bytes of a roster from its file. They are a roster, whose signature is not checked.

    Raises  RequestError if the file is missing, larger than a roster can be, or no roster.
    """
    expected = "expected a file that `edgefl keys --roster` makes"
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_ROSTER + 1)
    except OSError as error:
        raise RequestError(f"roster {path}: {error.strerror}; {expected}") from None
    if len(data) > LARGEST_ROSTER:
        raise RequestError(f"roster {path} has more than {LARGEST_ROSTER} bytes; {expected}")
    try:
        roster_of(data)
    except SecurityError as error:
        raise RequestError(f"roster {path} is {error}; {expected}") from None
    return data


def roster_of(data: bytes) -> Roster:
    """Return the roster of signed bytes. The signature is not checked. Raises SecurityError for other bytes."""
    return decoded_roster(data)[1]


def _made(path: Path, owner: Owner, draw: Draw) -> SigningIdentity:
    """Return the key in the file, which is written first if it is missing."""
    if not path.exists():
        check_writable(path)
        made = SigningIdentity.make(draw)
        try:
            write_private(path, _secret_text(made, owner).encode())
        except FileExistsError:  # another process was faster
            return _read(path, owner)
        return made
    found = _read(path, owner)
    sync_name(path)
    return found


def _secret_text(made: SigningIdentity, owner: Owner) -> str:
    """Return the content of a secret file, with a sentence for whoever opens it."""
    content = {
        "kind": f"edgefl {owner}",
        "version": FORMAT,
        "note": f"This file is {OWNERS[owner][0]}. The secret belongs to one person or device, and is never sent.",
        "public": public_line(made.public, owner),
        "secret": made.private_bytes().hex(),
    }
    return json.dumps(content, indent=1) + "\n"


def _read(path: Path, owner: Owner) -> SigningIdentity:
    """Read a secret file. Its public half shows whether the secret is damaged."""
    whose, command = OWNERS[owner]
    text = read_private(path, LARGEST_SECRET)
    try:
        found = json.loads(text)
        kind, version, public, secret = (found[name] for name in ("kind", "version", "public", "secret"))
        private = bytes.fromhex(secret)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RequestError(f"{path} is empty, damaged or no key; expected a file that `{command}` makes") from None
    if kind != f"edgefl {owner}":
        raise RequestError(f"{path} is {kind!r}; expected {whose}, which `{command}` makes")
    if version != FORMAT:
        raise RequestError(f"{path} has version {version!r} of its format; expected {FORMAT}, or a newer edgefl")
    if len(private) == IDENTITY_BYTES:
        read = SigningIdentity(private)
        if public == public_line(read.public, owner):
            return read
    raise RequestError(f"{path} is damaged, because its secret does not fit its public half; expected a copy of it")


def _public_text(path: Path) -> str:
    """Return the text of a public file. Raises RequestError if it is missing or has a secret."""
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_SECRET).decode("ascii", "replace").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"{path}: {why}; expected the public half of a key, or the file of its line") from None
    if '"secret"' in text:
        raise RequestError(f"{path} has a secret, which nobody else may have; expected the file of the public half")
    return text


def _owner(word: str) -> Owner:
    return "identity" if word == "identity" else "operator"


def _asked(owner: Owner) -> str:
    return f"the public half of {OWNERS[owner][0]}"


def _line_of(owner: Owner | None) -> str:
    return f"edgefl-{owner or 'identity'} HEX"
