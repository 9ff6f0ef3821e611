"""Identities and rosters as files: what is read back, who may read a secret, and what is refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from edgefl.errors import RequestError
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.trust.identity_files import (
    make_identity,
    make_operator,
    public_file,
    public_line,
    read_identity,
    read_operator,
    read_public,
    read_signed_roster,
    roster_of,
)


def test_an_identity_is_read_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    made = make_identity(file)
    assert read_identity(file).private_bytes() == made.private_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["identity.json"]


def test_a_secret_file_says_what_it_is(tmp_path: Path) -> None:
    made = make_identity(tmp_path / "identity.json", bytes)
    content = json.loads((tmp_path / "identity.json").read_text())
    assert content["kind"] == "edgefl identity"
    assert content["version"] == 1
    assert "secret" in content["note"]
    assert content["public"] == f"edgefl-identity {made.public.hex()}"
    assert content["secret"] == "00" * 32


def test_an_identity_is_never_replaced(tmp_path: Path) -> None:
    first = make_identity(tmp_path / "identity.json")
    assert make_identity(tmp_path / "identity.json").public == first.public


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_secret_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    make_identity(file)
    file.chmod(mode)
    with pytest.raises(RequestError, match=f"identity.json has mode {mode:04o}; expected 0600"):
        read_identity(file)
    with pytest.raises(RequestError, match="expected 0600"):
        make_identity(file)


def damaged(file: Path, **changes: object) -> Path:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secret": "11" * 32}, "is damaged, because its secret does not fit its public half"),
        ({"secret": "11" * 31}, "is damaged"),
        ({"secret": "xy"}, "is empty, damaged or no key"),
        ({"secret": None}, "is empty, damaged or no key"),
        ({"public": "edgefl-identity 00"}, "is damaged"),
        ({"kind": "edgefl operator"}, "is 'edgefl operator'; expected a device's identity"),
        ({"version": 2}, "has version 2 of its format; expected 1"),
    ],
)
def test_a_damaged_secret_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    make_identity(tmp_path / "identity.json")
    file = damaged(tmp_path / "identity.json", **changes)
    with pytest.raises(RequestError, match=message):
        read_identity(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", "0", "{" * 4000])
def test_a_file_that_is_no_secret_is_refused_with_the_command_that_makes_one(text: str, tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(RequestError, match=r"identity\.json is empty, damaged or no key; expected .*--join FILE"):
        read_identity(file)


def test_a_missing_identity_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nowhere: No such file or directory; expected"):
        read_identity(tmp_path / "nowhere")


def test_an_identity_is_not_made_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="lies in a directory that does not exist"):
        make_identity(tmp_path / "nowhere" / "identity.json")


def test_a_full_disk_leaves_no_part_of_an_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as raised:
            make_identity(tmp_path / "identity.json")
    assert raised.value.filename == str(tmp_path / "identity.json")
    assert list(tmp_path.iterdir()) == []
    assert make_identity(tmp_path / "identity.json").public


def test_the_operators_public_half_lies_beside_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "operator.json"
    operator = make_operator(file)
    assert public_file(file).read_text() == f"edgefl-operator {operator.public.hex()}\n"
    assert read_operator(file).public == read_public(str(public_file(file)), "operator") == operator.public
    public_file(file).unlink()
    assert make_operator(file).public == operator.public
    assert public_file(file).exists()


class TestPublicHalf:
    PUBLIC = bytes(range(32))

    def test_is_read_from_its_line_and_from_the_file_of_its_line(self, tmp_path: Path) -> None:
        line = public_line(self.PUBLIC, "identity")
        (tmp_path / "0.pub").write_text(line + "\n")
        for text in (line, f" {line}\n", self.PUBLIC.hex(), self.PUBLIC.hex().upper(), str(tmp_path / "0.pub")):
            assert read_public(text) == read_public(text, "identity") == self.PUBLIC

    @pytest.mark.parametrize("text", ["", "edgefl-identity", "edgefl-identity 00", "ab" * 31, "edgefl-x " + "ab" * 32])
    def test_of_other_words_is_refused(self, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(RequestError, match="expected the public half of a key"):
            read_public(text)

    def test_of_another_owner_is_refused(self) -> None:
        with pytest.raises(RequestError, match="public half of the operator's key; expected the public half of a dev"):
            read_public(public_line(self.PUBLIC, "operator"), "identity")
        with pytest.raises(RequestError, match="public half of a device's identity; expected the public half of the o"):
            read_public(public_line(self.PUBLIC, "identity"), "operator")

    def test_is_not_the_file_of_a_secret(self, tmp_path: Path) -> None:
        make_identity(tmp_path / "identity.json")
        with pytest.raises(RequestError, match="has a secret, which nobody else may have"):
            read_public(str(tmp_path / "identity.json"))


class TestRosterFile:
    def test_is_read_as_its_signed_bytes(self, tmp_path: Path) -> None:
        operator = make_operator(tmp_path / "operator.json")
        roster = Roster("home", 1, {0: bytes(32)}, (0,))
        (tmp_path / "roster").write_bytes(signed_roster(roster, operator))
        assert roster_of(read_signed_roster(tmp_path / "roster")) == roster

    @pytest.mark.parametrize("data", [b"", b"roster", bytes(100)])
    def test_of_other_bytes_is_refused(self, data: bytes, tmp_path: Path) -> None:
        (tmp_path / "roster").write_bytes(data)
        with pytest.raises(RequestError, match=r"roster .*roster is a roster that cannot be read: .*; expected a file"):
            read_signed_roster(tmp_path / "roster")

    def test_that_is_missing_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(RequestError, match=r"roster .*nowhere: No such file or directory; expected a file that"):
            read_signed_roster(tmp_path / "nowhere")
