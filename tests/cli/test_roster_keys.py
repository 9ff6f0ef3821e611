"""`edgefl keys --join`, `--operator`, `--roster` and `--show`, as a device's user and an operator type them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.errors import SecurityError
from edgefl.protocol.secure.roster import accepted_roster
from edgefl.protocol.trust.identity_files import (
    fingerprint,
    make_identity,
    make_operator,
    public_line,
    read_public,
    read_signed_roster,
    roster_of,
)

ROSTER = ["keys", "--roster", "home.roster", "--operator", "operator.json"]


@pytest.fixture(autouse=True)
def operators_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_operator(Path("operator.json"))


def line_of(client: int) -> str:
    """Return the public line of the identity in the file ID.json, which is made if it is missing."""
    return public_line(make_identity(Path(f"{client}.json")).public, "identity")


def added(*clients: int) -> list[str]:
    return [word for client in clients for word in ("--add", f"{client}={line_of(client)}")]


def first_version(*clients: int) -> None:
    assert main([*ROSTER, "--federation", "home", *added(*clients)]) == 0


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the refusal of a command that leaves the roster as it is."""
    path = Path("home.roster")
    before = path.read_bytes() if path.exists() else None
    capsys.readouterr()
    assert main([*words]) == 2
    assert (path.read_bytes() if path.exists() else None) == before
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.removeprefix("edgefl keys: ")


class TestJoin:
    def test_prints_the_public_half_alone_on_stdout_and_what_to_do_on_stderr(self, capsys) -> None:
        assert main(["keys", "--join", "me.json"]) == 0
        said = capsys.readouterr()
        public = make_identity(Path("me.json")).public
        assert said.out == public_line(public, "identity") + "\n"
        assert "me.json is this device's new identity" in said.err
        assert (
            f"Give the line to the operator of the federation, and compare its fingerprint {fingerprint(public)}."
            in (said.err)
        )

    def test_keeps_an_identity_and_prints_it_again(self, capsys) -> None:
        assert main(["keys", "--join", "me.json"]) == 0
        first = capsys.readouterr().out
        before = Path("me.json").read_bytes()
        assert main(["keys", "--join", "me.json"]) == 0
        again = capsys.readouterr()
        assert (again.out, Path("me.json").read_bytes()) == (first, before)
        assert "was this device's identity already, and is kept" in again.err

    def test_of_an_operators_key_is_refused(self, capsys) -> None:
        assert "operator.json is 'edgefl operator'" in refused(capsys, "keys", "--join", "operator.json")

    def test_prints_json(self, capsys) -> None:
        assert main(["keys", "--join", "me.json", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["new"] is True
        assert read_public(found["public"], "identity") == make_identity(Path("me.json")).public

    def test_without_cryptography_says_what_to_install(self) -> None:
        script = "import sys; sys.modules['cryptography'] = None; from edgefl.cli.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", script, "keys", "--join", "new.json"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr == (
            "edgefl keys: secure aggregation needs the package cryptography, which is not installed; "
            "pip install 'edgefl[keys]'\n"
        )
        assert not Path("new.json").exists()


class TestOperator:
    def test_makes_a_secret_and_a_public_half(self, capsys) -> None:
        assert main(["keys", "--operator", "boss.json"]) == 0
        public = read_public("boss.json.pub", "operator")
        assert Path("boss.json").stat().st_mode & 0o777 == 0o600
        assert fingerprint(public) in capsys.readouterr().out
        before = Path("boss.json").read_bytes()
        assert main(["keys", "--operator", "boss.json"]) == 0
        assert "was the operator's key already" in capsys.readouterr().out
        assert Path("boss.json").read_bytes() == before


class TestRoster:
    def test_has_the_clients_and_is_signed(self, capsys) -> None:
        first_version(0, 1)
        roster = accepted_roster(
            read_signed_roster(Path("home.roster")), read_public("operator.json.pub"), "home", None
        )
        assert roster.version == 1
        assert roster.keys == {client: make_identity(Path(f"{client}.json")).public for client in (0, 1)}
        assert "version 1 of the federation 'home' with 2 clients" in capsys.readouterr().out

    def test_grows_by_a_version_with_every_change(self) -> None:
        first_version(0)
        old = read_signed_roster(Path("home.roster"))
        assert main([*ROSTER, *added(1), "--revoke", "0"]) == 0
        new = roster_of(read_signed_roster(Path("home.roster")))
        assert (new.version, list(new.keys), new.revoked) == (2, [0, 1], (0,))
        with pytest.raises(SecurityError, match="version 1 of the roster; expected version 2"):
            accepted_roster(old, read_public("operator.json.pub"), "home", new)

    def test_that_does_not_change_is_not_written(self, capsys) -> None:
        first_version(0, 1)
        assert main([*ROSTER, "--revoke", "1"]) == 0
        before = Path("home.roster").read_bytes()
        capsys.readouterr()
        assert main([*ROSTER, *added(0), "--revoke", "1", "--federation", "home"]) == 0
        assert capsys.readouterr().out.startswith("Nothing changes. home.roster still has version 2")
        assert Path("home.roster").read_bytes() == before

    def test_takes_thirty_devices_of_a_directory(self) -> None:
        Path("joined").mkdir()
        for client in range(30):
            Path(f"joined/{client}.pub").write_text(line_of(client) + "\n")
        assert main([*ROSTER, "--federation", "home", "--add-from", "joined"]) == 0
        keys = roster_of(read_signed_roster(Path("home.roster"))).keys
        assert keys == {client: make_identity(Path(f"{client}.json")).public for client in range(30)}

    def test_takes_the_lines_of_a_file(self) -> None:
        lines = ["# our devices", "", *(f"{client} {line_of(client)}" for client in (7, 3))]
        Path("devices.txt").write_text("\n".join(lines))
        assert main([*ROSTER, "--federation", "home", "--add-from", "devices.txt", *added(3)]) == 0
        assert list(roster_of(read_signed_roster(Path("home.roster"))).keys) == [3, 7]

    def test_changes_an_identity_only_with_replace(self, capsys) -> None:
        first_version(0, 1)
        other = f"0={line_of(9)}"
        assert "in the roster with another identity; expected --replace 0=" in refused(capsys, *ROSTER, "--add", other)
        assert main([*ROSTER, "--replace", other]) == 0
        roster = roster_of(read_signed_roster(Path("home.roster")))
        assert (roster.version, roster.keys[0]) == (2, make_identity(Path("9.json")).public)

    def test_lets_a_revoked_client_come_back_with_a_new_identity_only(self, capsys) -> None:
        first_version(0, 1)
        assert main([*ROSTER, "--revoke", "0"]) == 0
        assert "client 0 is revoked; expected --replace 0=" in refused(capsys, *ROSTER, *added(0))
        old = refused(capsys, *ROSTER, "--replace", f"0={line_of(0)}")
        assert "client 0 was revoked with this identity; expected a new identity" in old
        assert main([*ROSTER, "--replace", f"0={line_of(9)}"]) == 0
        assert roster_of(read_signed_roster(Path("home.roster"))).revoked == ()

    def test_of_another_operator_is_refused(self, capsys) -> None:
        first_version(0)
        make_operator(Path("other.json"))
        words = [*ROSTER[:-1], "other.json", *added(1)]
        assert "home.roster: the operator's key has not signed version 1" in refused(capsys, *words)

    def test_with_a_changed_byte_is_refused(self, capsys) -> None:
        first_version(0)
        data = bytearray(Path("home.roster").read_bytes())
        for place in range(0, len(data), 7):
            Path("home.roster").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            refused(capsys, *ROSTER, *added(1))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--revoke", "5"], "--revoke 5, who is not in the roster"),
            (["--replace", "5={0}"], "--replace 5, who is not in the roster"),
            (["--add", "0={0}", "--revoke", "0"], "client 0 has two changes"),
            (["--add", "1={0}"], "clients 0 and 1 have one identity"),
            (["--add", "1"], "--add '1'; expected ID=PUBLIC"),
            (["--add", "x={0}"], "--add 'x=edgefl-identity"),
            (["--add", "4294967296={1}"], "client 4294967296; expected an id from 0 to 2147483647"),
            (["--add", "1={1}", "--add", "1={1}"], "with another ID each time"),
            (["--add", "1=nowhere"], "nowhere: No such file or directory"),
            (["--add", "1=operator.json.pub"], "is the public half of the operator's key"),
            (["--add", "1=1.json"], "1.json has a secret"),
            (["--federation", "work"], "--federation 'work', but the roster is of 'home'"),
            (["--add-from", "empty"], "empty has no identities"),
            (["--add-from", "nowhere"], "--add-from nowhere: No such file or directory"),
            (["--add-from", "strange"], "strange/me.pub; expected the client's id as the file's name"),
            (["--add-from", "lines"], "lines, line 1: client 'me'"),
            (["--add-from", "short"], "short, line 1: "),
            (["--add-from", "twice"], "twice has client 4 2 times"),
        ],
    )
    def test_refuses_a_change_that_does_not_fit(self, words: list[str], message: str, capsys) -> None:
        first_version(0)
        lines = [line_of(client) for client in range(3)]
        Path("empty").mkdir()
        Path("strange").mkdir()
        Path("strange/me.pub").write_text(lines[1])
        Path("lines").write_text(f"me {lines[1]}\n")
        Path("short").write_text("1 edgefl-identity 00\n")
        Path("twice").write_text(f"4 {lines[1]}\n4 {lines[2]}\n")
        assert message in refused(capsys, *ROSTER, *(word.format(*lines) for word in words))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--add", "0={0}"], "--federation None; expected a name of 1 to 64 characters"),
            (["--add", "0={0}", "--federation", "x" * 65], "expected a name of 1 to 64 characters"),
            (["--federation", "home"], "a roster without clients; expected --add or --add-from"),
        ],
    )
    def test_needs_a_name_and_clients_at_first(self, words: list[str], message: str, capsys) -> None:
        line = line_of(0)
        assert message in refused(capsys, *ROSTER, *(word.format(line) for word in words))

    def test_is_not_signed_with_a_key_that_others_can_read(self, capsys) -> None:
        Path("operator.json").chmod(0o644)
        words = [*ROSTER, "--federation", "home", *added(0)]
        assert "operator.json has mode 0644; expected 0600" in refused(capsys, *words)


class TestShow:
    def test_lists_the_clients_and_who_signed(self, capsys) -> None:
        first_version(0, 12)
        assert main([*ROSTER, "--revoke", "12"]) == 0
        capsys.readouterr()
        assert main(["keys", "--show", "home.roster", "--operator", "operator.json.pub"]) == 0
        prints = [fingerprint(make_identity(Path(f"{client}.json")).public) for client in (0, 12)]
        assert capsys.readouterr().out.splitlines() == [
            "home.roster has version 2 of the federation 'home' with 2 clients, 1 of them revoked.",
            f"client 0      {prints[0]}",
            f"client 12     {prints[1]}  revoked",
            "operator.json.pub has signed this roster.",
        ]

    def test_says_that_another_operator_has_not_signed(self, capsys) -> None:
        first_version(0)
        other = public_line(make_operator(Path("other.json")).public, "operator")
        assert main(["keys", "--show", "home.roster", "--operator", other]) == 1
        assert f"{other} has NOT signed this roster." in capsys.readouterr().out
        assert main(["keys", "--show", "home.roster", "--operator", other, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["signed"] is False

    def test_without_the_operator_says_that_nothing_was_checked(self, capsys) -> None:
        first_version(0)
        assert main(["keys", "--show", "home.roster"]) == 0
        assert "The signature was not checked" in capsys.readouterr().out

    def test_of_the_operators_secret_is_refused(self, capsys) -> None:
        first_version(0)
        words = ["keys", "--show", "home.roster", "--operator", "operator.json"]
        assert "operator.json has a secret" in refused(capsys, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to make; expected DIR with --clients, --join, --operator, --roster or --show"),
        (["made"], "made without --clients; expected the number of clients"),
        (["made", "--clients", "1", "--join", "me"], "DIR or --join together; expected one of them at a time"),
        (["--join", "me", "--add", "0=x"], "--add with --join; expected --roster with it"),
        (["--show", "home.roster", "--clients", "1"], "--clients with --show; expected DIR with it"),
        (["--join", "me", "--operator", "o"], "--operator with --join; expected --roster or --show with it"),
        (["--roster", "home.roster", "--revoke", "0"], "--roster without --operator"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_made(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(each.name for each in Path().iterdir())
    assert message in refused(capsys, "keys", *words)
    assert sorted(each.name for each in Path().iterdir()) == before
