"""`edgefl keys --join` makes a device's identity, and `edgefl keys --operator` makes the operator's key."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgefl.cli.working import note
from edgefl.protocol.trust.identity_files import fingerprint, make_identity, make_operator, public_file, public_line


def join(options: argparse.Namespace) -> int:
    """Make this device's identity, or keep an existing one, and print its public half."""
    path: Path = options.join
    is_new = not path.exists()
    public = make_identity(path).public
    line = public_line(public, "identity")
    if options.json:
        print(json.dumps({"identity": str(path), "new": is_new, "public": line, "fingerprint": fingerprint(public)}))
        return 0
    print(line, flush=True)
    made = "is this device's new identity" if is_new else "was this device's identity already, and is kept"
    note(f"{path} {made}. Its secret stays on this device.")
    note(f"Give the line to the operator of the federation, and compare its fingerprint {fingerprint(public)}.")
    return 0


def make_operators_key(options: argparse.Namespace) -> int:
    """Make the operator's key, or keep an existing one, and write the file of its public half."""
    path = Path(options.operator)
    is_new = not path.exists()
    public = make_operator(path).public
    if options.json:
        found = {"operator": str(path), "new": is_new, "public_file": str(public_file(path))}
        print(json.dumps({**found, "public": public_line(public, "operator"), "fingerprint": fingerprint(public)}))
        return 0
    made = "is the operator's new key" if is_new else "was the operator's key already, and is kept"
    print(f"{path} {made}. It signs rosters, and must never be on the server.")
    print(f"Every device gets {public_file(path)}, whose fingerprint is {fingerprint(public)}.")
    return 0
