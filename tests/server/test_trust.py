"""Real processes and sockets: a served run refuses every stranger with one line on both sides, goes on, and ends as if
nobody had tried.

In each run the server and all devices but LAST take part, so that round 1 stays open until the strangers have had their
turn. Then LAST joins, and the run must end bit-identical to its simulation.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from bench.cluster import Cluster, Process, await_, write_partitions
from edgefl.cli import local_processes as demo
from edgefl.cli.cli import main
from edgefl.deployment.device.reconnection import TLS_FAULTS
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.trust import tls
from edgefl.protocol.trust.keys import key_file, make_keys, read_key
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.frames import HEADER
from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Enrol, Hello, ModelRequest, Refused
from edgefl.protocol.wire.other_versions import encode_first
from tests.faults.outcome import Truth
from tests.forked import ForkedProcess
from tests.server import hurried_server
from tests.server.stranger import ANSWER_S, NONCE, Stranger
from tests.server.tap import Tap

pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
from edgefl.protocol.trust import certificates

EXPERIMENT = replace(
    demo.EXPERIMENT,
    data="digits",
    methods=("fedspu",),
    clients=3,
    per_round=3,
    rounds=2,
    eval_every=2,
    partition="iid",
    epochs=1,
)
LAST = EXPERIMENT.clients - 1
SOONER = ("--wait-for", str(LAST))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples, and what `edgefl keys` makes: keys, and certificates for 127.0.0.1."""
    root = tmp_path_factory.mktemp("trust")
    write_partitions(root / "shares", EXPERIMENT)
    assert main(["keys", str(root / "keys"), "--clients", str(EXPERIMENT.clients), "--host", "127.0.0.1"]) == 0
    return root


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return Truth.of(EXPERIMENT, tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="module")
def with_keys(root: Path) -> Iterator[Cluster]:
    """A run with keys and without TLS, in round 1."""
    table = "--keys", str(root / "keys" / "server.keys")
    yield from _open_run(root / "with-keys", root, table, lambda client: key_of(root, client))


@pytest.fixture(scope="module")
def with_tls(root: Path) -> Iterator[Cluster]:
    """A run with keys, TLS and client certificates, in round 1."""
    keys = root / "keys"
    serve = "--keys", str(keys / "server.keys"), *server_pair(keys), "--tls-client-ca", str(keys / "ca.pem")
    yield from _open_run(root / "with-tls", root, serve, lambda client: tls_of(root, client))


def _open_run(
    directory: Path, root: Path, serve: tuple[str, ...], client: Callable[[int], tuple[str, ...]]
) -> Iterator[Cluster]:
    program = (hurried_server.__file__,)
    with Cluster(
        directory, EXPERIMENT, root / "shares", (*SOONER, *serve), client, program, process=ForkedProcess
    ) as cluster:
        cluster.start_server()
        for number in range(LAST):
            cluster.start_device(number)
        for device in cluster.devices.values():
            await_connected(device)
        yield cluster


def await_connected(device: Process) -> None:
    await_(lambda: "connected as client" in device.said(), f"{device.name} is connected", limit_s=60)


def key_of(root: Path, client: int, directory: str = "keys") -> tuple[str, ...]:
    return "--key", str(key_file(root / directory, client))


def tls_of(root: Path, client: int, certificate: Path | None = None) -> tuple[str, ...]:
    stem = certificate or root / "keys" / f"device-{client:04d}"
    own = "--tls-cert", str(stem.with_suffix(".pem")), "--tls-key", str(certificates.tls_key_file(stem))
    return *key_of(root, client), "--tls-ca", str(root / "keys" / "ca.pem"), *own


def server_pair(directory: Path) -> tuple[str, ...]:
    return "--tls-cert", str(directory / "server.pem"), "--tls-key", str(directory / "server-tls.key")


def intruder(cluster: Cluster, root: Path, name: str, *options: str) -> Process:
    """A device process of somebody else, with samples and a directory of its own."""
    device = cluster.device(name, partition_file(root / "shares", LAST), "--state", str(root / name), *options)
    device.start()
    return device


def as_last(*options: str) -> tuple[str, ...]:
    return "--id", str(LAST), *options


def frames_of(data: bytes) -> list[bytes]:
    """The whole frames at the beginning of what one side has said."""
    frames = []
    while len(data) >= HEADER.size:
        end = HEADER.size + int.from_bytes(data[8:12], "little")
        frames.append(data[:end])
        data = data[end:]
    return frames


def assert_refused(device: Process, why: str, attempts: int = 1) -> None:
    """Require that it ends with one line that says why.

    After several attempts another line says that it tries again.
    """
    assert device.wait() == 1
    *trying, line = device.said().splitlines()
    assert why in line
    assert [why in line and line.endswith("; trying again") for line in trying] == [True] * (attempts > 1)


def assert_turned_away(device: Process, why: str) -> None:
    """Require that it says why, once, and goes on trying until it is ended here."""
    await_(lambda: "trying again" in device.said(), f"{device.name} says why it is turned away", limit_s=60)
    device.kill()
    (line,) = device.said().splitlines()
    assert why in line


def assert_heard(cluster: Cluster, *words: str) -> None:
    """The server says so, in one line."""

    def found() -> bool:
        return any(all(word in line for word in words) for line in cluster.server.said().splitlines())

    await_(found, f"the server says {words}", limit_s=30)


# With keys.


def test_a_device_with_a_wrong_key_is_refused(with_keys: Cluster, root: Path) -> None:
    make_keys(root / "other", EXPERIMENT.clients)
    device = intruder(with_keys, root, "wrong key", *as_last(*key_of(root, LAST, "other")))
    assert_refused(device, "edgefl client: the server: proof")
    assert_heard(with_keys, f"as client {LAST}: it refused the server: the server: proof", "is wrong")


def test_a_device_without_a_key_is_refused(with_keys: Cluster, root: Path) -> None:
    assert_refused(intruder(with_keys, root, "no key", *as_last()), "proof of 32 bytes; expected no proof")
    assert_heard(with_keys, f"as client {LAST}: it refused the server: the server: proof of 32 bytes")


def test_a_wrong_proof_is_refused(with_keys: Cluster) -> None:
    with Stranger(with_keys.port) as stranger:
        challenge = stranger.greet(LAST)
        assert isinstance(challenge, Challenge)
        stranger.prove(challenge, LAST, bytes(32))
        assert "is wrong; expected one made with the key of that client" in stranger.refusal()
    assert_heard(with_keys, f"as client {LAST}: client {LAST}: proof", "is wrong")


@pytest.mark.parametrize(
    ("client", "reason"),
    [(7, "client 7; expected an id below 3"), (None, "client None; expected the id of a client that has a key")],
)
def test_an_unknown_client_is_refused(client: int | None, reason: str, with_keys: Cluster) -> None:
    with Stranger(with_keys.port) as stranger:
        answer = stranger.greet(client)
        assert isinstance(answer, Refused)
        assert answer.reason == reason
    assert_heard(with_keys, "refused", f": {reason}")


def test_a_device_of_another_run_is_refused(with_keys: Cluster) -> None:
    with Stranger(with_keys.port) as stranger:
        answer = stranger.greet(LAST, run="0123456789abcdef")
        assert isinstance(answer, Refused)
        assert answer.reason.startswith("run 0123456789abcdef; expected run ")
    assert_heard(with_keys, "refused", "run 0123456789abcdef")


def test_a_device_of_version_1_hears_in_its_own_frames_that_it_is_too_old(with_keys: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", with_keys.port), ANSWER_S) as link:
        link.sendall(encode_first(1, 0, b"the Hello of an old device"))
        answer = b"".join(iter(lambda: link.recv(1 << 16), b""))
    why = "the device sends frames of version 1, and the server reads version 2"
    assert answer[:4] == b"EF\x01\x0d"
    assert why.encode() in answer
    assert_heard(with_keys, "refused", why, "update edgefl on the device")


def test_a_replayed_handshake_is_refused(with_keys: Cluster, root: Path) -> None:
    """The bytes of a handshake that succeeded, sent again: the server's nonce is another."""
    with Tap(with_keys.port) as tap:
        through = "--server", f"127.0.0.1:{tap.port}"
        device = intruder(with_keys, root, "overheard", *as_last(*key_of(root, LAST), *through))
        await_connected(device)
        device.kill()
    hello, enrol = frames_of(tap.heard)[:2]
    with Stranger(with_keys.port) as stranger:
        stranger.replay(hello, instead_of=Hello(PROTOCOL, "", LAST, bytes(32), ""))
        assert isinstance(stranger.hear(), Challenge)
        before = wrong_proofs(with_keys)
        stranger.replay(enrol, instead_of=Enrol(bytes(32), 1.0, b"", 0, b"", 0, b"", b"", [10]))
        assert "is wrong; expected one made with the key of that client" in stranger.refusal()
    await_(lambda: wrong_proofs(with_keys) > before, "the server says that the proof is wrong")


def wrong_proofs(cluster: Cluster) -> int:
    return cluster.server.said().count(f"as client {LAST}: client {LAST}: proof")


def test_tls_to_a_port_without_it_is_refused(with_keys: Cluster, root: Path) -> None:
    device = intruder(with_keys, root, "tls to plain", *as_last(*key_of(root, LAST), "--tls"))
    why = "the server does not speak TLS; expected a server with a certificate, or no --tls"
    assert_refused(device, why, TLS_FAULTS)
    assert_heard(with_keys, "refused", "magic")


def test_a_handshake_in_trickles_is_cut_off(with_keys: Cluster) -> None:
    with Stranger(with_keys.port) as stranger:
        stranger.trickle(stranger.connection.send(Hello(PROTOCOL, "", LAST, bytes(32), "slow")))
        assert stranger.hear() is None
    assert_heard(with_keys, "dropped", "the handshake is not complete after 2 s")


def test_a_frame_in_trickles_is_cut_off(with_keys: Cluster, root: Path) -> None:
    """The sender has a key."""
    with Stranger(with_keys.port) as stranger:
        stranger.enrol(LAST, read_key(key_file(root / "keys", LAST)))
        stranger.trickle(stranger.connection.send(ModelRequest(0)))
        assert stranger.hear() is None
    assert_heard(with_keys, f"dropped client {LAST}: a frame that the device began is not complete after 2 s")


def test_a_run_with_keys_ends_as_if_nobody_had_tried(with_keys: Cluster, truth: Truth) -> None:
    with_keys.start_device(LAST)
    with_keys.finish()
    assert truth.difference(with_keys) is None


# With TLS.


def test_plain_bytes_to_a_port_with_tls_are_refused(with_tls: Cluster, root: Path) -> None:
    assert_turned_away(intruder(with_tls, root, "plain to tls", *as_last(*key_of(root, LAST))), "expects --tls;")
    assert_heard(with_tls, "refused", "no TLS (WRONG_VERSION_NUMBER)")


def test_a_device_without_a_certificate_is_refused(with_tls: Cluster, root: Path) -> None:
    authority = "--tls-ca", str(root / "keys" / "ca.pem")
    device = intruder(with_tls, root, "no certificate", *as_last(*key_of(root, LAST), *authority))
    assert_turned_away(device, "expects --tls-cert signed by its authority if it asks for one;")
    assert_heard(with_tls, "refused", "no TLS (PEER_DID_NOT_RETURN_A_CERTIFICATE)")


def test_a_certificate_of_a_foreign_authority_is_refused(with_tls: Cluster, root: Path) -> None:
    foreign = certificates.make_authority(datetime.now(timezone.utc))
    stem = root / "foreign"
    certificates.issue(foreign, stem, "device", datetime.now(timezone.utc), timedelta(days=1))
    device = intruder(with_tls, root, "foreign device", *as_last(*tls_of(root, LAST, stem)))
    assert_turned_away(device, "expects --tls-cert signed by its authority if it asks for one;")
    assert_heard(with_tls, "refused", "no TLS (CERTIFICATE_VERIFY_FAILED)")


def test_a_hello_that_comes_with_the_last_bytes_of_the_tls_handshake_is_heard(with_tls: Cluster, root: Path) -> None:
    stem = root / "keys" / f"device-{LAST:04d}"
    context = tls.device_context(root / "keys" / "ca.pem", stem.with_suffix(".pem"), certificates.tls_key_file(stem))
    incoming, outgoing, connection = ssl.MemoryBIO(), ssl.MemoryBIO(), Connection("device")
    session = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", with_tls.port), ANSWER_S) as link:

        def until_done(step: Callable[[], bytes | None]) -> bytes | None:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    link.sendall(outgoing.read())
                    data = link.recv(1 << 16)
                    assert data, "the server has closed the connection"
                    incoming.write(data)

        until_done(session.do_handshake)
        session.write(connection.send(Hello(PROTOCOL, "", LAST, NONCE, "")))
        link.sendall(outgoing.read())  # the end of the handshake, and this
        answer = until_done(session.read)
    assert answer is not None
    assert isinstance(connection.receive(answer)[0], Challenge)


def test_the_bytes_of_another_tls_session_are_refused(with_tls: Cluster, root: Path) -> None:
    with Tap(with_tls.port) as tap:
        through = "--server", f"127.0.0.1:{tap.port}"
        device = intruder(with_tls, root, "overheard tls", *as_last(*tls_of(root, LAST), *through))
        await_connected(device)
        device.kill()
    before = with_tls.server.said().count("refused")
    with socket.create_connection(("127.0.0.1", with_tls.port)) as link:
        link.sendall(tap.heard)
        while link.recv(1 << 16):
            pass  # its half of a handshake that cannot be finished, then the end
    await_(lambda: with_tls.server.said().count("refused") > before, "the server refuses the replay")


def test_a_tls_handshake_that_stalls_is_cut_off(with_tls: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", with_tls.port)) as link:
        link.sendall(b"\x16\x03\x01")
        link.settimeout(30)
        assert link.recv(1) == b""
    assert_heard(with_tls, "refused", "no TLS (the handshake is not complete after 2 s)")


def test_a_server_whose_certificate_has_expired_is_refused(root: Path) -> None:
    keys, expired = root / "keys", root / "expired"
    past = datetime.now(timezone.utc) - timedelta(days=2)
    certificates.make_certificates(expired, ["127.0.0.1"], 0, past, days=1)
    serve = "--keys", str(keys / "server.keys"), *server_pair(expired)
    with Cluster(root / "expired-run", EXPERIMENT, root / "shares", serve, process=ForkedProcess) as cluster:
        cluster.start_server()
        authority = "--tls-ca", str(expired / "ca.pem")
        device = intruder(cluster, root, "up to date", *as_last(*key_of(root, LAST), *authority))
        assert_refused(device, "the server's certificate is not accepted (certificate has expired)", TLS_FAULTS)
        assert_heard(cluster, "refused", "EXPIRED")


def test_a_run_with_tls_ends_as_if_nobody_had_tried(with_tls: Cluster, truth: Truth) -> None:
    with_tls.start_device(LAST)
    with_tls.finish()
    assert truth.difference(with_tls) is None
