"""The name of a run in secure aggregation: a digest of what the server tells its devices about the run."""

from __future__ import annotations

import hashlib

import msgspec

from edgefl.protocol.wire.messages import Welcome, encode


def named_run(run: str, welcome: Welcome) -> str:
    """Return 64 hexadecimal digits, which follow from the run's id and all of `welcome` but the client's own id.

    A server could tell one device another learning rate than the others, so that a sum shows the one device's change.
    Devices that were told different things have different names for the run, and take no part in one group.
    """
    same = msgspec.structs.replace(welcome, client=0, options=dict(sorted(welcome.options.items())))
    return hashlib.sha256(run.encode() + b"\0" + encode(same)).hexdigest()
