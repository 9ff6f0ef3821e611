"""`edgefl keys` makes one key per device for a run over a network, and certificates if hosts are named."""

from __future__ import annotations

import argparse
import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgefl.cli.working import working
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import TABLE, key_file, make_keys

NAME = re.compile(r"[A-Za-z0-9.:*_-]+")  # characters of a host's name or address
MOST_DAYS = 3650
SERVER_FILES = {"tls_cert": "server.pem", "tls_key": "server-tls.key", "tls_ca": "ca.pem"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the directory, the number of clients, and the names of the server."""
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="directory that the keys and certificates are written into"
    )
    parser.add_argument(
        "--clients", type=int, required=True, metavar="N", help="number of clients, whose ids are 0 to N - 1"
    )
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


def run(options: argparse.Namespace) -> int:
    """Write keys and certificates, and say who gets which file."""
    directory, hosts = options.directory, options.host
    if bad := [host for host in hosts if not NAME.fullmatch(host)]:
        raise RequestError(f"--host {bad[0]!r}; expected names or addresses of the server, separated by commas")
    if not 1 <= options.days <= MOST_DAYS:
        raise RequestError(f"--days {options.days}; expected a number of days from 1 to {MOST_DAYS}")
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
