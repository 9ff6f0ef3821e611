"""`edgefl keys`: make one key per device for a run over a network, and certificates if hosts are named."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

from edgefl.protocol.trust.keys import TABLE, key_file, make_keys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the directory, the number of clients, and the server's names."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory for the files")
    parser.add_argument(
        "--clients", type=int, required=True, metavar="N", help="number of clients, whose ids are 0 to N - 1"
    )
    parser.add_argument(
        "--host",
        type=lambda text: [host for host in text.split(",") if host],
        default=[],
        metavar="NAME,...",
        help="names and addresses of the server, for which certificates are made as well; needs the package "
        "cryptography; default: no certificates",
    )
    parser.add_argument(
        "--days", type=int, default=365, metavar="N", help="number of days that certificates are valid; default: 365"
    )


def run(options: argparse.Namespace) -> int:
    """Writes keys and certificates; tells what goes where."""
    directory, hosts = options.directory, options.host
    if hosts:
        from edgefl.protocol.trust import certificates  # needs cryptography: says so before a key is written
    make_keys(directory, options.clients)
    print(f"{directory / TABLE} is the server's; {key_file(directory, 0).name} is for client 0, and so on")
    if hosts:
        certificates.make_certificates(directory, hosts, options.clients, datetime.now(timezone.utc), options.days)
        print(f"server.pem and server-tls.key are the server's, for {', '.join(hosts)}; every device gets ca.pem")
    return 0
