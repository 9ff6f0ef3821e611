"""The next version of a roster, which the operator makes from the present version and a few changes.

Nothing here reads or writes a file. identity_files.py has the files, and protocol/secure/roster.py the roster itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgefl.errors import RequestError
from edgefl.protocol.secure.roster import MOST_CLIENTS, Roster

LONGEST_NAME = 64  # characters of a federation's name
MOST_ID = (1 << 31) - 1


@dataclass(frozen=True)
class RosterChange:
    """The operator's changes to a roster.

    added     public half of every client that joins
    replaced  new public half of every client whose device has a new identity, also of a revoked client
    revoked   ids of clients who take part no more
    """

    added: Mapping[int, bytes] = field(default_factory=dict)
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    revoked: tuple[int, ...] = ()


def changed_roster(kept: Roster | None, federation: str | None, change: RosterChange) -> Roster:
    """Return the next version of a roster, or `kept` itself if nothing changes.

    kept        present version. None: there is none, and the result is version 1
    federation  name of the federation. None: as in `kept`
    Raises      RequestError for a change that does not fit `kept`, and names the option that does.
    """
    name = _name(kept, federation)
    old = kept or Roster(name, 1, {})
    _check_ids(old, change)
    for client, public in change.added.items():
        _check_added(old, client, public)
    for client, public in change.replaced.items():
        if old.keys.get(client) == public and client in old.revoked:
            raise RequestError(f"client {client} was revoked with this identity; expected a new identity")
    keys = dict(sorted({**old.keys, **change.added, **change.replaced}.items()))
    anew = {client for client, public in change.replaced.items() if old.keys.get(client) != public}
    revoked = tuple(sorted((set(old.revoked) - anew) | set(change.revoked)))
    _check_keys(keys)
    if kept is not None and keys == kept.keys and set(revoked) == set(kept.revoked):
        return kept
    return Roster(name, 1 if kept is None else kept.version + 1, keys, revoked)


def _name(kept: Roster | None, federation: str | None) -> str:
    """Return the federation's name. Raises RequestError if it is missing, too long, or another than before."""
    if kept is not None:
        if federation not in (None, kept.federation):
            raise RequestError(
                f"--federation {federation!r}, but the roster is of {kept.federation!r}; expected its name"
            )
        return kept.federation
    if not federation or len(federation) > LONGEST_NAME or not federation.isprintable():
        raise RequestError(f"--federation {federation!r}; expected a name of 1 to {LONGEST_NAME} characters")
    return federation


def _check_ids(old: Roster, change: RosterChange) -> None:
    """Raise RequestError unless each change is of one client that can be changed so."""
    for client in (*change.added, *change.replaced, *change.revoked):
        if not 0 <= client <= MOST_ID:
            raise RequestError(f"client {client}; expected an id from 0 to {MOST_ID}")
    if twice := set(change.added) & set(change.replaced) | set(change.revoked) & {*change.added, *change.replaced}:
        raise RequestError(f"client {min(twice)} has two changes; expected one of --add, --replace and --revoke")
    for option, clients in (("--replace", change.replaced), ("--revoke", change.revoked)):
        if unknown := set(clients) - set(old.keys):
            raise RequestError(f"{option} {min(unknown)}, who is not in the roster; expected --add, or another id")


def _check_added(old: Roster, client: int, public: bytes) -> None:
    """Raise RequestError if the client is in the roster with another key, or is revoked."""
    if client in old.revoked:
        raise RequestError(f"client {client} is revoked; expected --replace {client}=... with a new identity")
    if client in old.keys and old.keys[client] != public:
        raise RequestError(
            f"client {client} is in the roster with another identity; expected --replace {client}=... if the device "
            "has a new one"
        )


def _check_keys(keys: Mapping[int, bytes]) -> None:
    """Raise RequestError if there are no keys, too many, or two clients with one key."""
    if not keys:
        raise RequestError("a roster without clients; expected --add or --add-from")
    if len(keys) > MOST_CLIENTS:
        raise RequestError(f"a roster with {len(keys)} clients; expected at most {MOST_CLIENTS}")
    owners: dict[bytes, int] = {}
    for client, public in keys.items():
        if (other := owners.setdefault(public, client)) != client:
            raise RequestError(f"clients {other} and {client} have one identity; expected an identity for each client")
