"""A second key for clients, the end of the first key, and the mark that tells a server which key a device has."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.errors import RequestError
from edgefl.protocol.trust import key_rotation, tls
from edgefl.protocol.trust.key_rotation import renew_keys, retire_keys
from edgefl.protocol.trust.keys import make_keys, read_key, read_table
from edgefl.protocol.wire import handshake

NONCE, OLD, NEW = bytes(range(100, 132)), bytes(32), bytes(range(32))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", 3)
    return tmp_path / "keys"


def test_a_second_key_is_valid_beside_the_first_and_the_others_stay(keys: Path) -> None:
    before = read_table(keys / "server.keys")
    files = renew_keys(keys, [2, 0])
    assert files == {2: keys / "device-0002-2.key", 0: keys / "device-0000-2.key"}
    expected = {client: (*before[client], read_key(file)) for client, file in files.items()}
    assert read_table(keys / "server.keys") == {**before, **expected}
    assert {file.stat().st_mode & 0o777 for file in keys.iterdir()} == {0o600}


def test_the_former_key_goes_and_the_next_key_has_a_file_of_its_own(keys: Path) -> None:
    renew_keys(keys, None)
    assert retire_keys(keys, None) == [0, 1, 2]
    assert retire_keys(keys, None) == []
    assert read_table(keys / "server.keys")[1] == (read_key(keys / "device-0001-2.key"),)
    assert renew_keys(keys, [1]) == {1: keys / "device-0001-3.key"}


@pytest.mark.parametrize(("clients", "reason"), [([3], "client 3 has no line in"), ([1], "--retire 1 first")])
def test_what_cannot_be_renewed_changes_nothing(clients: list[int], reason: str, keys: Path) -> None:
    renew_keys(keys, [1])
    before = {file: file.read_bytes() for file in keys.iterdir()}
    with pytest.raises(RequestError, match=reason):
        renew_keys(keys, [0, *clients])
    assert {file: file.read_bytes() for file in keys.iterdir()} == before


def test_a_disk_that_refuses_the_table_leaves_the_present_keys_valid(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = read_table(keys / "server.keys")
    monkeypatch.setattr(key_rotation, "write_atomically", refuse)
    with pytest.raises(OSError, match="No space left"):
        renew_keys(keys, [1])
    assert read_table(keys / "server.keys") == before
    monkeypatch.undo()
    assert renew_keys(keys, [1]) == {1: keys / "device-0001-3.key"}


def test_the_mark_tells_which_key_a_device_has() -> None:
    for key in (OLD, NEW):
        marked = handshake.marked(NONCE, key)
        assert (len(marked), marked[:24]) == (32, NONCE[:24])
        assert handshake.key_of(marked, (OLD, NEW)) == key
        assert handshake.key_of(marked, (NEW, OLD)) == key


def test_a_device_of_before_has_the_first_key() -> None:
    assert handshake.key_of(NONCE, (OLD, NEW)) == OLD
    assert handshake.marked(NONCE, None) == NONCE


def test_marks_of_two_connections_have_nothing_in_common() -> None:
    other = handshake.marked(bytes(32), OLD)
    assert other[24:] != handshake.marked(NONCE, OLD)[24:]


def test_the_commands_say_who_gets_which_file(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", str(keys), "--renew", "1"]) == 0
    file = keys / "device-0001-2.key"
    assert capsys.readouterr().out == (
        f"{file} is the new key of client 1. Start its device with --key NEW --former-key OLD.\n"
    )
    assert main(["keys", str(keys), "--retire", "all"]) == 0
    assert capsys.readouterr().out == "The former key is valid no more for 1 clients: 1.\n"
    assert main(["keys", str(keys), "--renew", "all", "--json"]) == 0
    assert [each["client"] for each in json.loads(capsys.readouterr().out)] == [0, 1, 2]
    assert main(["keys", str(keys), "--retire", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [0]


def test_the_server_gets_another_certificate_of_its_authority_for_its_names(
    keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates = pytest.importorskip("edgefl.protocol.trust.certificates", exc_type=RequestError)
    x509 = pytest.importorskip("cryptography.x509")
    certificates.make_certificates(keys, ["localhost", "127.0.0.1"], 1, datetime.now(timezone.utc), 3)
    files = keys / "ca.pem", keys / "server.pem"
    authority, before = (x509.load_pem_x509_certificate(file.read_bytes()) for file in files)
    assert main(["keys", str(keys), "--renew", "server", "--days", "9"]) == 0
    assert "for localhost, 127.0.0.1, and valid for 9 days" in capsys.readouterr().out
    after = x509.load_pem_x509_certificate(files[1].read_bytes())
    after.verify_directly_issued_by(authority)
    assert after.serial_number != before.serial_number
    assert (after.not_valid_after_utc - before.not_valid_after_utc).days in (5, 6)
    tls.server_context(keys / "server.pem", keys / "server-tls.key", None)
    assert {file.stat().st_mode & 0o777 for file in keys.glob("*.key")} == {0o600}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--renew", "server"], "expected a directory that `edgefl keys --host` has made"),
        (["--renew", "1", "--days", "0"], "expected a number of days"),
        (["--renew", "x"], "'x'; expected ids separated by commas, or all"),
        (["--renew", "1", "--retire", "1"], "expected one of them at a time"),
        (["--renew", "1", "--clients", "3"], "expected DIR alone with it"),
        (["--retire", "7"], "client 7 has no line in"),
    ],
)
def test_strange_commands_are_refused(
    words: list[str], reason: str, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) if words == ["--renew", "x"] else nullcontext():
        assert main(["keys", str(keys), *words]) == 2
    assert reason in capsys.readouterr().err
