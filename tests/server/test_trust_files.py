"""Keys and certificates that change while a server runs: who is let go, who stays, and what an unusable file does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cluster import Cluster, await_, write_partitions
from edgefl.cli.cli import main
from edgefl.protocol.trust.keys import KeyTable, make_keys, read_table, table_text, write_private
from edgefl.server import run_history
from edgefl.server.events import Close, DeviceJoined, DeviceRefusal, KeyChanged, MessageReceived, RoundClosed
from edgefl.server.trust_files import TrustFiles
from tests.faults.outcome import Truth
from tests.forked import ForkedProcess
from tests.server.played import begun, play, saved, trained
from tests.server.test_trust import EXPERIMENT, await_connected, server_pair

SAME = "0 without a key since, 0 with a key replaced"


def looked(files: TrustFiles) -> list[object]:
    """Return what two looks find. The first look sees that a file is another one, the second one that it stays so."""
    first = list(files.look())
    return [*first, *files.look()]


def rewrite(table: Path, keys: KeyTable) -> None:
    new = table.with_suffix(".new")
    write_private(new, table_text(keys))
    os.replace(new, table)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", 3)
    return tmp_path / "keys" / "server.keys"


def test_a_changed_table_names_who_lost_a_key_and_whose_is_another(table: Path) -> None:
    keys = read_table(table)
    files = TrustFiles(table, keys)
    assert looked(files) == []
    rewrite(table, {0: keys[0], 1: (bytes(32),), 4: (bytes(32),)})
    line, withdrawn, replaced = looked(files)
    assert (
        str(line) == f"{table} was read again: 3 clients, 0 with two keys, 1 without a key since, 1 with a key replaced"
    )
    assert withdrawn == KeyChanged(2, "the key of this client was withdrawn")
    assert isinstance(replaced, KeyChanged)
    assert (replaced.client, replaced.valid) == (1, (bytes(32),))
    assert keys == read_table(table), "the table that the handshake reads is the new one"
    assert looked(files) == []


def test_a_second_key_troubles_nobody_and_its_former_key_goes_with_those_who_have_it(table: Path) -> None:
    keys, new = read_table(table), bytes(32)
    files, (old,) = TrustFiles(table, keys), keys[1]
    rewrite(table, {**keys, 1: (old, new)})
    (line,) = looked(files)
    assert str(line) == f"{table} was read again: 3 clients, 1 with two keys, {SAME}"
    rewrite(table, {**keys, 1: (new,)})
    _, retired = looked(files)
    assert isinstance(retired, KeyChanged)
    assert (retired.client, retired.valid) == (1, (new,))


def test_a_table_that_is_being_written_is_not_read_in_part(table: Path) -> None:
    keys = read_table(table)
    files, whole = TrustFiles(table, keys), table.read_text()
    table.write_text(whole.splitlines()[0] + "\n")
    assert list(files.look()) == [], "the file has changed since the last look, and may change again"
    table.write_text(whole)
    assert looked(files) in (
        [],
        [f"{table} was read again: 3 clients, 0 with two keys, {SAME}"],
    )
    assert len(keys) == 3


def test_an_unusable_table_changes_nothing_and_is_named_once(table: Path) -> None:
    keys = read_table(table)
    files, before = TrustFiles(table, keys), dict(keys)
    table.write_text("0 abc\n")
    (line,) = looked(files)
    assert (
        str(line) == f"{table}, line 1: not hexadecimal; expected 64 hexadecimal digits; the keys of before stay valid"
    )
    assert looked(files) == []
    table.unlink()
    assert looked(files) == []
    assert keys == before


def test_a_client_without_its_key_is_let_go_and_not_waited_for() -> None:
    """Client 0 has answered. Client 1, whose key is withdrawn, is all that round 1 waits for."""
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    gone = play(under_test, KeyChanged(1, "the key of this client was withdrawn"))
    assert Close(11, "the key of this client was withdrawn") in gone
    assert DeviceRefusal(1, "the key of this client was withdrawn") in saved(gone)
    assert any(isinstance(record, RoundClosed) for record in saved(gone))
    back = play(under_test, DeviceJoined(12, 1, 1.0, 0))
    assert DeviceRefusal(1, "") in saved(back), "it has come with another key"


def test_a_client_with_another_key_is_let_go_and_waited_for() -> None:
    under_test = begun()
    play(under_test, MessageReceived(10, trained(1)))
    valid = (bytes(32),)
    actions = play(under_test, KeyChanged(1, "the key of this client was replaced", valid))
    assert [action for action in actions if isinstance(action, Close)] == [
        Close(11, "the key of this client was replaced")
    ]
    assert saved(actions) == []
    assert play(under_test, KeyChanged(2, "the key of this client was replaced", valid)) == []


def test_a_client_whose_former_key_goes_stays_if_its_device_has_the_new_one() -> None:
    under_test, keys = begun(), (bytes(32), bytes(range(32)))
    for number, key in ((20, keys[1]), (21, keys[0])):
        play(under_test, DeviceJoined(number, number - 20, 1.0, 0, key=key))
    gone = [KeyChanged(client, "the key of this client was replaced", keys[1:]) for client in (0, 1)]
    assert play(under_test, gone[0]) == []
    assert Close(21, "the key of this client was replaced") in play(under_test, gone[1])


def test_a_key_is_withdrawn_and_replaced_and_a_certificate_renewed_while_a_run_goes_on(tmp_path: Path) -> None:
    """Device 1 is let go before round 1 and in the middle, and comes back with its model. The run has its bits."""
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    keys, experiment = tmp_path / "keys", replace(EXPERIMENT, rounds=30, eval_every=30)
    write_partitions(tmp_path / "shares", experiment)
    assert main(["keys", str(keys), "--clients", "3", "--host", "127.0.0.1"]) == 0
    table, key, certificate = keys / "server.keys", keys / "device-0001.key", keys / "server.pem"
    known = read_table(table)

    def options(client: int) -> tuple[str, ...]:
        return "--key", str(keys / f"device-{client:04d}.key"), "--tls-ca", str(keys / "ca.pem")

    serve = ("--keys", str(table), *server_pair(keys))
    with Cluster(tmp_path, experiment, tmp_path / "shares", serve, options, process=ForkedProcess) as cluster:

        def await_end(words: str) -> None:
            await_(lambda: cluster.devices[1].ended() is not None, "device 1 is let go", limit_s=20)
            assert words in cluster.devices[1].said()

        cluster.start_server()
        for client in (0, 1):
            cluster.start_device(client)
            await_connected(cluster.devices[client])
        rewrite(table, {client: each for client, each in known.items() if client != 1})
        await_end("the key of this client was withdrawn")
        assert f"{table} was read again: 2 clients, 0 with two keys, 1 without a key since" in cluster.server.said()
        rewrite(table, known)
        certificate.touch()
        await_(lambda: f"{certificate} was read again" in cluster.server.said(), "the certificate is read", limit_s=20)
        cluster.start_device(1)  # before device 2, with which round 1 begins: a client without a key is not chosen
        await_(lambda: "client 1 is back" in cluster.server.said(), "device 1 is back", limit_s=20)
        cluster.start_device(2)
        await_(lambda: len(run_history.metrics(cluster.run)) >= 2, "two rounds are closed")
        rewrite(table, {**known, 1: (bytes(range(32)),)})
        await_end("the key of this client was replaced; start its device with the new key")
        key.rename(keys / "former.key")
        write_private(key, f"{bytes(range(32)).hex()}\n".encode())
        cluster.devices[1].arguments += ["--former-key", str(keys / "former.key")]
        cluster.start_device(1)
        cluster.finish()
        assert cluster.devices[0].said().count("connected as client") == 1, "device 0 has noticed nothing"
        assert len(run_history.metrics(cluster.run)) == 30
        assert Truth.of(experiment, tmp_path / "simulated").difference(cluster) is None
