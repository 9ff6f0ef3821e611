"""`edgefl keys DIR --renew` and `--retire`: other keys and another certificate for a run, which may be going on."""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timezone

from edgefl.errors import RequestError
from edgefl.protocol.trust.key_rotation import renew_keys, retire_keys


def change(options: argparse.Namespace) -> int:
    """Give clients a second key, or retire the first of two, or renew the certificate. Say who gets which file."""
    if options.renew and options.retire:
        raise RequestError("--renew and --retire together; expected one of them at a time")
    if options.clients is not None or options.host:
        raise RequestError("--renew or --retire with --clients or --host; expected DIR alone with it")
    if options.renew == "server":
        return _renewed_server(options)
    asked = options.renew or options.retire
    clients = None if asked == "all" else asked
    if options.retire:
        return _retired(retire_keys(options.directory, clients), options.json)
    files = renew_keys(options.directory, clients)
    if options.json:
        print(json.dumps([{"client": client, "key": str(file)} for client, file in files.items()]))
        return 0
    for client, file in files.items():
        print(f"{file} is the new key of client {client}. Start its device with --key NEW --former-key OLD.")
    return 0


def _renewed_server(options: argparse.Namespace) -> int:
    from edgefl.protocol.trust import certificates  # needs cryptography, and says so

    hosts = certificates.renew_server(options.directory, datetime.now(timezone.utc), options.days)
    file = options.directory / "server.pem"
    if options.json:
        print(json.dumps({"tls_cert": str(file), "hosts": hosts, "days": options.days}))
        return 0
    print(f"{file} and server-tls.key are new, for {', '.join(hosts)}, and valid for {options.days} days.")
    return 0


def _retired(clients: list[int], as_json: bool) -> int:
    if as_json:
        print(json.dumps(clients))
        return 0
    listed = ", ".join(map(str, clients)) or "none"
    print(f"The former key is valid no more for {len(clients)} clients: {listed}.")
    return 0
