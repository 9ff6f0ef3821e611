"""TLS in the simulator: a seed repeats itself though OpenSSL's bytes do not, and damage on the way breaks nothing."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.vopr.case import Case
from tests.vopr.network import Direction
from tests.vopr.night import METHODS, Night
from tests.vopr.server import HOST
from tests.vopr.simulation import simulated
from tests.vopr.tls import TRANSPORTS, contexts

CASE = Case(3, 0.1, 3, "fedavg", often=2.0, transport="tls")


@pytest.mark.parametrize("seed", [3, 5])
def test_a_seed_with_tls_repeats_itself_and_keeps_every_promise(seed: int) -> None:
    first, again = (simulated(replace(CASE, seed=seed)) for _ in range(2))
    assert first.failure is None
    assert (first.digest, first.events) == (again.digest, again.events)


def test_the_network_sees_no_message_where_tls_protects_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = list[bytes](), Direction.send

    def noting(direction: Direction, data: bytes) -> None:
        sent.append(data)
        send(direction, data)

    monkeypatch.setattr(Direction, "send", noting)
    simulated(CASE)
    secret = b"".join(sent)
    sent.clear()
    simulated(replace(CASE, transport="plain"))
    assert b"the run ended after round" in b"".join(sent)
    assert b"the run ended after round" not in secret


def test_the_handshakes_of_a_simulation_have_one_length() -> None:
    assert len({_handshake() for _ in range(20)}) == 1


def _handshake() -> tuple[int, ...]:
    """Return the numbers of bytes that both sides send in turn until both are done."""
    pair, found = contexts(HOST), list[int]()
    to_server, to_device = ssl.MemoryBIO(), ssl.MemoryBIO()
    device = pair.device.wrap_bio(to_device, to_server, server_hostname=HOST)
    server = pair.server.wrap_bio(to_server, to_device, server_side=True)
    for side, out in ((device, to_server), (server, to_device), (device, to_server)):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
        found.append(out.pending)
    server.do_handshake()
    assert server.version() == "TLSv1.3"
    return tuple(found)


def test_a_night_takes_both_transports_with_every_method() -> None:
    count = len(TRANSPORTS) * len(METHODS)
    cases = list(Night(CASE, 0, count, "").cases())
    assert {case.transport for case in cases} == set(TRANSPORTS)
    assert len({(case.method, case.transport) for case in cases}) == count
    assert "--transport tls" in cases[len(METHODS)].command
