"""A connection that stays alive and brings nothing: a device connects anew after a time (device_socket.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.passing import Ways, passing
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.protocol.trust import tls
from tests.deployment.device.device_cases import files
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer, converse

HEADER = 5  # bytes of a TLS record before its content: the type, two bytes of the version, two bytes of the length
MODULE = "edgefl.deployment.device.device_socket"


def lengthened(number: int, damaged: list[int]) -> Callable[[bytes], bytes]:
    """Return a direction in which the record with this number states a length that is 8,192 bytes greater."""
    begin = seen = 0  # position of the next record, and the bytes that have passed
    record = 0
    header = bytearray()

    def through(data: bytes) -> bytes:
        nonlocal begin, seen, record
        out = bytearray(data)
        for at in range(len(data)):
            if seen + at < begin:
                continue
            header.append(data[at])
            if len(header) == HEADER - 1 and record == number:
                out[at] |= 0x20
                damaged.append(seen + at)
            if len(header) == HEADER:
                begin = seen + at + 1 + int.from_bytes(header[3:], "big")
                record += 1
                header.clear()
        seen += len(data)
        return bytes(out)

    return through


@pytest.mark.parametrize("number", [7, 25], ids=["Welcome", "an evaluation"])
def test_a_record_of_tls_with_a_wrong_length_delays_a_device_and_changes_nothing(
    number: int, trust: Path, server: ScriptedServer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MODULE}.QUIET_S", 0.3)
    monkeypatch.setattr(f"{MODULE}.HANDSHAKE_S", 0.3)
    undisturbed, device, said, damaged = make(1), make(), list[str](), list[int]()
    converse(undisturbed, server)
    server.replies.clear()
    numbers = iter([number])
    context = tls.server_context(trust / "server.pem", trust / "server-tls.key")
    with (
        Listener(server, context) as listener,
        passing(listener.address, lambda: Ways(bytes, lengthened(next(numbers, -1), damaged))) as address,
    ):
        link = DeviceSocket(
            ServerAddress.parse(address),
            device,
            tls.device_context(trust / "ca.pem"),
            bytes,
            DeviceEnvironment(said.append, lambda failures: None, time.monotonic),
        )
        assert link.run() == "all rounds are done"
    assert len(damaged) == 1
    (lost,) = (line for line in said if line.endswith("; trying again"))
    assert "the server has said nothing for 0 s" in lost or "timed out" in lost
    assert files(device) == files(undisturbed)
