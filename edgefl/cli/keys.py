"""`edgefl keys` makes keys and certificates for a run over a network, and the identities of secure aggregation.

identity_keys.py makes identities, and roster_keys.py makes and shows the roster of identities.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgefl.cli.working import working
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import TABLE, key_file, make_keys

NAME = re.compile(r"[A-Za-z0-9.:*_-]+")  # characters of a host's name or address
MOST_DAYS = 3650
SERVER_FILES = {"tls_cert": "server.pem", "tls_key": "server-tls.key", "tls_ca": "ca.pem"}
FITTING: dict[str, tuple[str, ...]] = {  # what is made or shown -> the options that go with it
    "directory": ("clients", "host", "renew", "retire"),
    "join": (),
    "roster": ("operator", "federation", "add", "add_from", "replace", "revoke"),
    "show": ("operator",),
    "operator": (),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of keys and certificates, and the options of identities."""
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="directory that the keys and certificates are written into",
    )
    parser.add_argument("--clients", type=int, metavar="N", help="number of clients, whose ids are 0 to N - 1")
    parser.add_argument(
        "--host",
        type=lambda text: [host for host in text.split(",") if host],
        default=[],
        metavar="NAME,...",
        help="names and addresses of the server, separated by commas, for which certificates are made as well. "
        "Certificates need the package cryptography. (default: no certificates)",
    )
    parser.add_argument(
        "--days", type=int, default=365, metavar="N", help="number of days that certificates are valid (default: 365)"
    )
    parser.add_argument(
        "--renew",
        type=_renewed,
        metavar="WHAT",
        help="ids of clients, separated by commas, or `all`: give each client a second key, which is valid beside the "
        "present key until --retire. `server`: give the server a new certificate for its names. DIR has the files.",
    )
    parser.add_argument(
        "--retire",
        type=_ids,
        metavar="WHAT",
        help="ids of clients, separated by commas, or `all`: let only the newest key of each client be valid",
    )
    _add_identities(parser)


def _ids(text: str) -> list[int] | str:
    """Return the ids of clients, or "all"."""
    words = text.split(",")
    if text != "all" and not all(word.isascii() and word.isdigit() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}; expected ids separated by commas, or all")
    return text if text == "all" else [int(word) for word in words]


def _renewed(text: str) -> list[int] | str:
    """Return the ids of clients, "all" or "server"."""
    return text if text == "server" else _ids(text)


def _add_identities(parser: argparse.ArgumentParser) -> None:
    """Add the options of identities and of the roster."""
    group = parser.add_argument_group(
        "secure aggregation", "Identities need the package cryptography. A public half is a line of text."
    )
    group.add_argument(
        "--join",
        type=Path,
        metavar="FILE",
        help="make this device's secret identity in FILE, and print the public half. An existing FILE is kept.",
    )
    group.add_argument(
        "--operator",
        metavar="FILE",
        help="operator's secret key, with which --roster signs. Without --roster and --show, make FILE and FILE.pub. "
        "With --show, FILE is the public half.",
    )
    group.add_argument("--show", type=Path, metavar="FILE", help="show the roster in FILE, and whose key has signed it")
    _add_roster(group)


def _add_roster(group: argparse._ArgumentGroup) -> None:
    """Add the options with which a version of the roster is made."""
    group.add_argument(
        "--roster", type=Path, metavar="FILE", help="make the first or the next version of the signed roster in FILE"
    )
    group.add_argument("--federation", metavar="NAME", help="name of the federation, for the roster's first version")
    group.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="ID=PUBLIC",
        help="add a client with the public half of its identity, or with the file of this line",
    )
    group.add_argument(
        "--add-from",
        type=Path,
        metavar="PATH",
        help="add the clients of a directory with files ID.pub, or of a file with lines 'ID PUBLIC'",
    )
    group.add_argument(
        "--replace",
        action="append",
        default=[],
        metavar="ID=PUBLIC",
        help="give a client of the roster the new identity of its device, also after --revoke",
    )
    group.add_argument(
        "--revoke", action="append", type=int, default=[], metavar="ID", help="let this client take part no more"
    )


def run(options: argparse.Namespace) -> int:
    """Make or show what the options ask for, and say who gets which file."""
    made = _chosen(options)
    if not 1 <= options.days <= MOST_DAYS:
        raise RequestError(f"--days {options.days}; expected a number of days from 1 to {MOST_DAYS}")
    if made == "directory" and (options.renew or options.retire):
        from edgefl.cli import changed_keys

        return changed_keys.change(options)
    if made == "directory":
        return _make_keys(options)
    if made in ("join", "operator"):
        from edgefl.cli import identity_keys  # needs cryptography, and says so

        return identity_keys.join(options) if made == "join" else identity_keys.make_operators_key(options)
    from edgefl.cli import roster_keys

    return roster_keys.sign(options) if made == "roster" else roster_keys.show(options)


def _chosen(options: argparse.Namespace) -> str:
    """Return the key of FITTING that the options ask for. Raises RequestError for several, or for a strange option."""
    asked = [name for name in ("directory", "join", "roster", "show") if getattr(options, name) is not None]
    if len(asked) > 1:
        raise RequestError(f"{_listed(asked)} together; expected one of them at a time")
    if not asked and options.operator is None:
        raise RequestError("nothing to make; expected DIR with --clients, --join, --operator, --roster or --show")
    made = asked[0] if asked else "operator"
    every = {option for fitting in FITTING.values() for option in fitting} - {*FITTING[made], made}
    strange = [option for option in sorted(every) if getattr(options, option) not in (None, [])]
    if strange:
        owners = [name for name, fitting in FITTING.items() if strange[0] in fitting]
        raise RequestError(f"{_option(strange[0])} with {_option(made)}; expected {_listed(owners)} with it")
    return made


def _option(name: str) -> str:
    return "DIR" if name == "directory" else f"--{name.replace('_', '-')}"


def _listed(names: Iterable[str]) -> str:
    return " or ".join(map(_option, names))


def _make_keys(options: argparse.Namespace) -> int:
    """Write keys and certificates, and say who gets which file."""
    directory, hosts = options.directory, options.host
    if options.clients is None:
        raise RequestError(f"{directory} without --clients; expected the number of clients")
    if bad := [host for host in hosts if not NAME.fullmatch(host)]:
        raise RequestError(f"--host {bad[0]!r}; expected names or addresses of the server, separated by commas")
    if hosts:
        from edgefl.protocol.trust import certificates  # needs cryptography: says so before a key is written
    with working("making keys" + (" and certificates" if hosts else "")):
        make_keys(directory, options.clients)
        if hosts:
            certificates.make_certificates(directory, hosts, options.clients, datetime.now(timezone.utc), options.days)
    if options.json:
        print(json.dumps(_files(directory, options.clients, hosts)))
        return 0
    print(f"{directory / TABLE} is the server's. {key_file(directory, 0).name} is for client 0, and so on.")
    if hosts:
        print(f"server.pem and server-tls.key are the server's, for {', '.join(hosts)}. Every device gets ca.pem.")
    return 0


def _files(directory: Path, clients: int, hosts: list[str]) -> dict[str, Any]:
    """Return the files and who gets them as JSON values."""
    found: dict[str, Any] = {"directory": str(directory), "keys": str(directory / TABLE)}
    keys = {client: key_file(directory, client) for client in range(clients)}
    devices = [{"client": client, "key": str(file)} for client, file in keys.items()]
    if not hosts:
        return {**found, "clients": devices}
    for device, file in zip(devices, keys.values(), strict=True):
        stem = file.with_suffix("")
        device |= {"tls_cert": f"{stem}.pem", "tls_key": f"{stem}-tls.key"}
    server = {name: str(directory / file) for name, file in SERVER_FILES.items()}
    return {**found, "hosts": hosts, **server, "clients": devices}
