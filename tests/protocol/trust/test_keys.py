"""Device keys as files, and the command that makes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import key_file, make_keys, read_key, read_table


def counted(length: int) -> bytes:
    return bytes(range(length))


def test_the_server_and_every_device_read_the_same_key(tmp_path: Path) -> None:
    make_keys(tmp_path, 3)
    table = read_table(tmp_path / "server.keys")
    assert table == {client: (read_key(key_file(tmp_path, client)),) for client in range(3)}
    assert len(set(table.values())) == 3
    assert {len(key) for (key,) in table.values()} == {32}


def test_a_key_is_written_in_hexadecimal_and_for_its_owner_alone(tmp_path: Path) -> None:
    make_keys(tmp_path, 1, counted)
    assert key_file(tmp_path, 0).read_text() == bytes(range(32)).hex() + "\n"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_keys_that_were_handed_out_are_not_replaced(tmp_path: Path) -> None:
    make_keys(tmp_path, 1)
    with pytest.raises(RequestError, match=r"holds server\.keys already"):
        make_keys(tmp_path, 1)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_key_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    make_keys(tmp_path, 1)
    key_file(tmp_path, 0).chmod(mode)
    with pytest.raises(RequestError, match=f"mode {mode:04o}; expected 0600"):
        read_key(key_file(tmp_path, 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a key of 0 bytes; expected 32"),
        ("ab" * 31, "a key of 31 bytes; expected 32"),
        ("xy" * 32, "not hexadecimal; expected 64 hexadecimal digits"),
        ("schlüssel", "ascii"),
    ],
)
def test_a_malformed_key_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = private(tmp_path / "key", text)
    with pytest.raises(RequestError, match=message):
        read_key(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected a line"),
        (f"0 {'ab' * 32}\n0 {'cd' * 32}\n", "line 2: client '0'; expected a number that no other line has"),
        (f"zero {'ab' * 32}\n", "line 1: client 'zero'"),
        (f"0 {'ab' * 32}\n1\n", "line 2: a key of 0 bytes"),
        (f"0 {'ab' * 32} {'ab' * 32}\n", "line 1: 2 keys, 1 of them different; expected one or two keys"),
        (f"0 {'ab' * 32} {'cd' * 32} {'ef' * 32}\n", "line 1: 3 keys, 3 of them different; expected one or two keys"),
    ],
)
def test_a_malformed_table_is_refused_by_line(text: str, message: str, tmp_path: Path) -> None:
    file = private(tmp_path / "table", text)
    with pytest.raises(RequestError, match=message):
        read_table(file)


def private(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nowhere: No such file"):
        read_key(tmp_path / "nowhere")


def test_the_command_makes_keys_without_certificates_unless_hosts_are_named(tmp_path: Path) -> None:
    assert main(["keys", str(tmp_path / "keys"), "--clients", "2"]) == 0
    names = {file.name for file in (tmp_path / "keys").iterdir()}
    assert names == {"device-0000.key", "device-0001.key", "server.keys"}


def test_the_command_refuses_to_make_keys_twice_or_for_nobody(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["keys", str(tmp_path), "--clients", "0"]) == 2
    assert "clients=0; expected clients >= 1" in capsys.readouterr().err
    assert main(["keys", str(tmp_path), "--clients", "1"]) == 0
    assert main(["keys", str(tmp_path), "--clients", "1"]) == 2


def test_without_cryptography_certificates_are_refused_in_one_sentence_and_no_key_is_written(tmp_path: Path) -> None:
    script = "import sys; sys.modules['cryptography'] = None; from edgefl.cli.cli import main; sys.exit(main())"
    arguments = ["keys", str(tmp_path / "keys"), "--clients", "1", "--host", "localhost"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("edgefl keys: certificates need the package cryptography, which is not installed")
    assert not (tmp_path / "keys").exists()
