"""Secure aggregation: the server learns the sum of a group's vectors, and no vector of a single client.

group_member.py is the device's half of the protocol, and group_sum.py is the server's half. Both take bytes and arrays,
and return bytes and arrays. Nothing here opens a socket or a file, reads a clock or draws a random number. The protocol
is that of Bonawitz et al. 2017 with its consistency step, and groups of more than 100 clients use the sparse graph of
Bell et al. 2020. Every primitive but Shamir's sharing comes from the package `cryptography`.
"""

from __future__ import annotations

from importlib.util import find_spec

from edgefl.errors import RequestError

if find_spec("cryptography") is None:
    raise RequestError(
        "secure aggregation needs the package cryptography, which is not installed; pip install 'edgefl[keys]'"
    )
